"""The site: docs/ and a reference made from the code."""
