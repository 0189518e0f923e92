"""JSON schemas of live runs; nothing here needs vLLM."""

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["city", "n"],
    "additionalProperties": False,
}
BOOKING = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "day": {"enum": ["monday", "tuesday", "friday"]},
        "seats": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["name", "day", "seats"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
