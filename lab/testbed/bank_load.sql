-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- pgbench's simple-update, on a table that a modelled machine fills in a second.
\set aid random(1, 2000)
\set delta random(-5000, 5000)
begin;
update accounts set abalance = abalance + :delta where aid = :aid;
select abalance from accounts where aid = :aid;
insert into history values (:aid, :delta, current_timestamp);
end;
