-- Known costs: those of a request, one number per action, and that of the decided action.
alter table decisions add column costs blob;
alter table decisions add column cost real;
