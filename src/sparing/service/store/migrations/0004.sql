-- Keys that may only decide and send rewards; ids of partial rewards, so that a repeated one counts once.
create table api_keys_with_roles(key_sha256 blob primary key, name text not null unique,
  role text not null check (role in ('decide', 'read', 'write', 'admin')), experiment text,
  created integer not null, expires integer, revoked integer) strict, without rowid;
insert into api_keys_with_roles select key_sha256, name, role, experiment, created, expires, revoked from api_keys;
drop table api_keys;
alter table api_keys_with_roles rename to api_keys;
alter table outcomes add column reward_id text;
create unique index outcomes_reward_id on outcomes(decision_seq, reward_id) where reward_id is not null;
