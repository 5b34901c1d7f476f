"""Text to SQL: equal result sets pass, and nothing but reading is run."""

import pytest

from rollwright.verifiers import SqlLimits, VerifierSetupError, sql_verifier
from tests.verifiers.submissions import submitted, verdict_of

SCHEMA = """
CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER);
INSERT INTO singer VALUES (1, 'Ann', 'NO', 30), (2, 'Ben', 'NO', 41), (3, 'Cleo', 'FR', 25), (4, 'Dan', 'FR', 41);
"""
GOLD = "SELECT country, count(*) FROM singer GROUP BY country"
QUICK = SqlLimits(seconds=0.3)


def verdict(query, gold=GOLD, schema=SCHEMA, limits=QUICK):
    text = query if query.startswith(("sql:", "```")) else f"sql: {query}"
    return verdict_of(sql_verifier(limits=limits), submitted(text, gold=gold, info={"schema": schema}))


@pytest.mark.row("S433")
@pytest.mark.parametrize(
    "query",
    [
        GOLD,
        "SELECT country, sum(1) FROM singer GROUP BY 1 ORDER BY country DESC",
        "WITH c AS (SELECT * FROM singer) SELECT country, count(id) * 1.0 FROM c GROUP BY country;",
        "```sql\nSELECT country, count(*)\nFROM singer\nGROUP BY country\n```",
    ],
)
def test_equal_result_sets_pass_however_they_were_asked_for(query):
    assert verdict(query).outcome == 1.0


@pytest.mark.row("S433")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT country FROM singer",
        "SELECT country, count(*) + 1 FROM singer GROUP BY country",
        "SELECT country, count(*) FROM singer GROUP BY country UNION ALL SELECT 'NO', 2",
        "SELECT count(*), country FROM singer GROUP BY country",
        "",
    ],
)
def test_other_rows_fail(query):
    assert verdict(query).outcome == 0.0


def test_the_order_counts_where_the_gold_query_orders():
    gold = "SELECT name FROM singer ORDER BY age, name"
    assert verdict("SELECT name FROM singer ORDER BY age, name", gold=gold).outcome == 1.0
    assert verdict("SELECT name FROM singer", gold=gold).outcome == 0.0


@pytest.mark.row("S433")
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM singer",
        "UPDATE singer SET age = 1",
        "DROP TABLE singer",
        "CREATE TABLE x (y)",
        "INSERT INTO singer VALUES (9, 'x', 'NO', 1) RETURNING country, 2",
        "ATTACH 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "SELECT load_extension('x')",
        "SELECT country, 2 FROM singer; DELETE FROM singer",
        "BEGIN",
        "SELECT hex(zeroblob(100000000))",
        "SELECT printf('%.*c', 100000000, 'x')",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, x FROM n",
        "SELECT country, 2 FROM nothing",
        "SELECT '\ud800'",
        "SELECT '\0'",
        "x" * 20_000,
    ],
)
def test_what_is_no_bounded_select_is_refused_and_earns_nothing(query):
    refused = verdict(query)
    assert (refused.outcome, refused.finding) in {(0.0, "refused_query"), (0.0, "no_answer")}


def test_a_gold_query_or_schema_that_does_not_run_is_an_error_and_no_number():
    assert verdict(GOLD, gold="SELECT x FROM y").outcome == "grader_error"
    assert verdict(GOLD, schema="").outcome == "grader_error"
    assert verdict(GOLD, schema="CREATE").outcome == "grader_error"


def test_limits_that_let_nothing_through_are_refused():
    with pytest.raises(VerifierSetupError):
        SqlLimits(seconds=0)
