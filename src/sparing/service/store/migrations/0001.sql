-- One gapless order (seq) over decisions, outcomes and changes; everything else is derived, or settings.
create table store(one integer primary key check (one = 1), store_id blob not null, salt blob not null,
  last_seq integer not null, last_ts integer not null, last_backup integer) strict;
create table experiments(experiment integer primary key, name text not null unique, config text not null,
  floor integer not null default 0) strict;
create table decisions(
  seq integer primary key, experiment integer not null references experiments, ts integer not null,
  decision_id blob not null unique check (length(decision_id) = 16),
  request_id text, request_hash blob, subject blob, context_id text,
  context blob,
  eligible blob, arm text not null, action integer not null, needs_reward integer not null, reason text not null,
  play_probability real not null, call_probability real not null,
  value real not null, low real not null, high real not null, worth real,
  model_seq integer not null, active integer not null, expires integer) strict;
create unique index decisions_request on decisions(experiment, request_id) where request_id is not null;
create index decisions_subject on decisions(experiment, subject) where subject is not null;
create index decisions_context_id on decisions(experiment, context_id) where context_id is not null;
create table outcomes(
  seq integer primary key, experiment integer not null references experiments, ts integer not null,
  decision_seq integer not null references decisions, kind text not null, value real, played integer,
  closes integer not null) strict;
create unique index one_close on outcomes(decision_seq) where closes = 1;
create table changes(seq integer primary key, experiment integer not null references experiments, ts integer not null,
  kind text not null, body blob not null, who text not null) strict;
create table snapshots(experiment integer not null references experiments, seq integer not null, ts integer not null,
  engine text not null, digest blob not null, sha256 blob not null, path text not null,
  primary key (experiment, seq)) strict, without rowid;
create table totals(experiment integer not null references experiments, hour integer not null, reason text not null,
  arm text not null, asked integer not null, decisions integer not null, rewarded integer not null,
  reward_sum real not null, reward_squares real not null,
  primary key (experiment, hour, reason, arm, asked)) strict, without rowid;
create table workers(worker text not null, experiment integer not null, seq integer not null, digest blob not null,
  ts integer not null, primary key (worker, experiment)) strict, without rowid;
create table api_keys(key_sha256 blob primary key, name text not null unique,
  role text not null check (role in ('read', 'write', 'admin')), experiment text,
  created integer not null, expires integer, revoked integer) strict, without rowid;
