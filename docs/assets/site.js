// Tables wider than the page scroll in a box of their own: let keys reach it.
addEventListener("load", () =>
  requestAnimationFrame(() => {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) box.tabIndex = 0;
  }),
);
