"""An MCP server written by hand, whose one tool has the schema that its argument says, or that has two of one name.

With a file as its second argument it starts a process with a session of its own, writes both process ids to the file,
and ends neither at the end of its input nor when it is asked to.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SCHEMAS = {
    "no_type": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
    "no_number": {"type": "object", "properties": {"a": {"minimum": float("nan")}}},
    "no_target": {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
    "far_target": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
    "slow_pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
    "slow_key": {"type": "object", "patternProperties": {"(a+)+$": {"type": "string"}}, "additionalProperties": False},
    "unbounded_key": {"type": "object", "patternProperties": {"a": {}}, "unevaluatedProperties": False},
    "two_of_one_name": {"type": "object"},
}


def answer(kind, asked):
    if asked["method"] == "initialize":
        told = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        return {"result": told | {"serverInfo": {"name": "odd", "version": "1"}}}
    if asked["method"] == "tools/list":
        return {"result": {"tools": [{"name": "t", "inputSchema": SCHEMAS[kind]}] * (1 + (kind == "two_of_one_name"))}}
    if asked["method"] == "tools/call":
        return {"result": {"content": [{"type": "text", "text": "called"}]}}
    return {"error": {"code": -32601, "message": "no such method"}}


if sys.argv[2:]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(sys.argv[2]).write_text(f"{os.getpid()} {left.pid}")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(sys.argv[1], asked)}) + "\n")
        sys.stdout.flush()
while sys.argv[2:]:
    signal.pause()
