-- What a page and a sweep need without reading all events: expired calls by hour; up to where contexts are erased, and from where on;
-- counts of the dashboard; up to which later event a snapshot is still the state.
alter table totals add column expired integer not null default 0;
insert into totals(experiment, hour, reason, arm, asked, decisions, rewarded, reward_sum, reward_squares, expired)
  select d.experiment, d.ts / 3600000000, d.reason, d.arm, d.needs_reward, 0, 0, 0, 0, count(*)
  from outcomes o join decisions d on d.seq = o.decision_seq where o.kind = 'expired'
  group by d.experiment, d.ts / 3600000000, d.reason, d.arm, d.needs_reward
  on conflict (experiment, hour, reason, arm, asked) do update set expired = excluded.expired;
alter table experiments add column erased_from integer;
alter table experiments add column erased_to integer not null default 0;
update experiments set erased_from = (select min(d.seq) from decisions d where d.experiment = experiments.experiment and d.context is null)
  where floor > 0;
alter table snapshots add column through integer not null default 0;
create index changes_kind on changes(experiment, kind);
create table live_counts(experiment integer primary key references experiments, reached integer not null, body blob not null) strict;
