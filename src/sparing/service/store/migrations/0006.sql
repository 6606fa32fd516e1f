-- Shadow calls: the decision that was served in their context.
alter table decisions add column served_id blob;
create index decisions_served_id on decisions(served_id) where served_id is not null;
