"""An MCP server written by hand, whose one tool has the schema that its argument says, or that has two of one name."""

import json
import sys

SCHEMAS = {
    "no_type": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
    "no_number": {"type": "object", "properties": {"a": {"minimum": float("nan")}}},
    "no_target": {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
    "far_target": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
    "slow_pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
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


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(sys.argv[1], asked)}) + "\n")
        sys.stdout.flush()
