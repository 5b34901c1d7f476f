CREATE MACRO expand(s) AS CASE WHEN s IS NULL THEN NULL WHEN len(s.n) = 0 THEN s.v
  ELSE flatten(list_transform(range(1, len(s.n) + 1), lambda i: list_resize([s.v[i]], s.n[i], s.v[i]))) END;
CREATE VIEW slots AS FROM ledger QUALIFY row_number() OVER (PARTITION BY group_id, slot ORDER BY seq DESC) = 1;
