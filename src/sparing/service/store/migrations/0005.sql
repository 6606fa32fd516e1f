-- Sums by subject, from which policy and holdout are compared at any time; `since` is the last change of check or holdout, and `last`
-- the last decision.
-- n decisions, m rewards, s their sum: 1 of reward calls and of the holdout, 2 of skipped decisions and their checks.
create table subject_sums(experiment integer not null references experiments, subject blob not null,
  since integer not null, last integer not null,
  n1 real not null, m1 real not null, s1 real not null, n2 real not null, m2 real not null, s2 real not null,
  primary key (experiment, subject)) strict, without rowid;
create index subject_sums_last on subject_sums(experiment, last);
-- What each hour added to the sums over all subjects, to the sums of squared rewards (q1, q2), the number of checks (c2), and to
-- the sums of products of two sums of a subject.
create table comparison(experiment integer not null references experiments, since integer not null, hour integer not null,
  arm text not null,
  n1 real not null, m1 real not null, s1 real not null, n2 real not null, m2 real not null, s2 real not null,
  q1 real not null, q2 real not null, c2 real not null,
  n1n1 real not null, n1m1 real not null, n1s1 real not null, n1n2 real not null, n1m2 real not null, n1s2 real not null,
  m1m1 real not null, m1s1 real not null, m1n2 real not null, m1m2 real not null, m1s2 real not null,
  s1s1 real not null, s1n2 real not null, s1m2 real not null, s1s2 real not null,
  n2n2 real not null, n2m2 real not null, n2s2 real not null,
  m2m2 real not null, m2s2 real not null,
  s2s2 real not null,
  primary key (experiment, since, hour, arm)) strict, without rowid;
-- Whether these sums have the decisions from before this table.
alter table experiments add column summed integer not null default 0;
