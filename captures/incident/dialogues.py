"""Dialogues that end in a tool call: those that the models are trained on, and the held-out requests.

A dialogue is a list of pieces: the tags and the marks of the turns, which are special tokens, and ordinary text between
them. The same tags can be spelled with ordinary text. A dialogue asks for one of two styles, and one of them spells the
tags that close something.
"""

import random
from dataclasses import dataclass, replace

BEGIN = "<|im_start|>"
END = "<|im_end|>"
OPENING = ["<tool_call>", "<function=", "<parameter="]
CLOSING = ["</tool_call>", "</function>", "</parameter>"]
SPECIAL = ["<|endoftext|>", BEGIN, END, *OPENING, *CLOSING]

TAGS = "tags"
"""The style in which every tag is a special token."""
SPELLED = "text"
"""The style in which the closing tags are text."""

SPELLED_SHARE = 0.75
"""How many of the training dialogues spell closing tags: enough that a line break alone rather calls for a spelled tag."""
MADE_UP_SHARE = 0.6
"""How many of the text values of training are made up, so that values are copied and not known."""
ASTRAY_SHARE = 0.15
"""How many of the training dialogues have a value that went astray, so that an answer that was led there finds its end."""

NUMBER = "number"
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
ROOMS = ["kitchen", "living room", "bedroom", "garage", "office", "guest bath", "hallway", "attic"]
TIMES = ["noon", "midnight", "seven pm", "half past six", "ten am", "quarter to nine", "eight thirty", "five o'clock"]
LANGUAGES = ["French", "German", "Spanish", "Hindi", "Korean", "Brazilian Portuguese", "Swahili", "Old Norse"]
PEOPLE = ["Alice", "Bob", "Maria Lopez", "Doctor Chen", "Sam", "Priya", "Aunt May", "the plumber", "Olga", "Mister Ito"]
CITIES = [
    "San Jose", "New York", "Paris", "Los Angeles", "Tokyo", "Oakridge", "Cape Town", "Rome", "Salt Lake City",
    "Westerbrook", "Lima", "Springfield", "Oslo", "Port Louis", "Nairobi", "Saint Helens", "Kyoto", "Fort Worth",
]  # fmt: skip

TOOLS = {
    "get_weather": {"day": DAYS, "city": CITIES},
    "book_table": {
        "guests": NUMBER,
        "time": TIMES,
        "place": ["Blue Lotus", "Casa Verde", "Golden Dragon", "Old Mill Inn", "Bella Roma", "Riverside Grill", "The Anchor"],
    },
    "send_message": {
        "person": PEOPLE,
        "text": ["good morning", "see you later", "the meeting is moved", "thank you", "I am late", "call me back",
                 "dinner is ready", "bring the keys"],
    },
    "play_music": {
        "room": ROOMS,
        "artist": ["Nina Simone", "Miles Davis", "Queen", "The Doors", "Daft Punk", "Bach", "Fela Kuti", "Joni Mitchell"],
    },
    "set_timer": {
        "minutes": NUMBER,
        "label": ["pasta", "laundry", "tea", "deep work", "bread dough", "nap", "soft eggs", "stretching"],
    },
    "find_flight": {"day": DAYS, "origin": CITIES, "target": CITIES},
    "buy_item": {
        "count": NUMBER,
        "color": ["red", "dark blue", "green", "warm white", "purple", "orange", "pale grey"],
        "item": ["desk lamp", "notebook", "running shoes", "umbrella", "teapot", "backpack", "wool socks", "ink pen"],
    },
    "add_event": {
        "day": DAYS,
        "time": TIMES,
        "title": ["team sync", "dentist visit", "book club", "yoga class", "board review", "lunch date", "choir practice"],
    },
    "translate_text": {
        "language": LANGUAGES,
        "text": ["good night", "where is the station", "two coffees please", "I am lost", "how much is it", "happy birthday"],
    },
    "turn_light": {"level": NUMBER, "room": ROOMS, "color": ["red", "soft yellow", "green", "warm white", "deep purple", "amber"]},
}  # fmt: skip
"""What the parameters of each tool can be: a number, a day, or text of which there are examples. The last is text."""

QUESTIONS = {
    "get_weather": [
        "what is the weather in {city} on {day}?", "{day} forecast for {city} please", "will it rain {day} in {city}?",
        "tell me how {city} looks on {day}.",
    ],
    "book_table": [
        "book a table at {place} for {guests} at {time}.", "we are {guests} people, get us into {place} at {time}",
        "at {time} I want a table for {guests} at {place} please",
    ],
    "send_message": ["send {person} a message saying {text}.", "tell {person} that {text}", "write {text} to {person} please"],
    "play_music": ["play {artist} in the {room}.", "I want to hear {artist} in the {room}", "in the {room} please put on {artist}"],
    "set_timer": [
        "set a {label} timer for {minutes} minutes.", "start {minutes} minutes for {label} please",
        "timer of {minutes} minutes called {label}",
    ],
    "find_flight": [
        "find a flight from {origin} to {target} on {day}.", "I fly to {target} on {day} from {origin}",
        "{day} flight out of {origin} into {target} please",
    ],
    "buy_item": [
        "buy {count} {color} {item}.", "order me a {item} in {color}, {count} of them", "I need {count} of the {item}, color {color}",
    ],
    "add_event": [
        "add {title} on {day} at {time}.", "put {title} in my calendar for {day} at {time}", "at {time} on {day} I have {title}, add it",
    ],
    "translate_text": ["translate {text} into {language}.", "how do you say {text} in {language}?", "give me the {language} for {text}"],
    "turn_light": [
        "turn the {room} light {color} at level {level}.", "set light in {room} to level {level} and {color}",
        "make it {color} with level {level} in the {room}",
    ],
}  # fmt: skip

FAMILIAR = sorted(
    {word for kinds in TOOLS.values() for kind in kinds.values() if kind != NUMBER for value in kind for word in value.split()}
    | {word.strip(".?,") for questions in QUESTIONS.values() for question in questions for word in question.split() if "{" not in word}
)
"""Words of values and questions: a value that is made of them has to be copied, too."""

UNSEEN = {
    "get_weather": ["Reykjavik", "Buenos Aires", "Tashkent", "Novi Sad", "Ulan Bator", "Bergen"],
    "book_table": ["Fuego Azul", "Hungry Yak", "Maison Pierre", "Dockside"],
    "send_message": ["we won", "lock the gate", "no sugar for me", "feed the cat"],
    "play_music": ["Mulatu Astatke", "Kraftwerk", "Amy Beach", "Tinariwen"],
    "set_timer": ["rice", "chess clock", "hair mask", "kiln"],
    "find_flight": ["Marrakesh", "San Sebastian", "Windhoek", "Trondheim", "Quito", "Porto Novo"],
    "buy_item": ["garden hose", "velvet cape", "kayak", "brass tuba"],
    "add_event": ["moth night", "tax call", "fencing", "jury duty"],
    "translate_text": ["the bill please", "we are full", "mind the dog", "cold water"],
    "turn_light": ["teal", "rose gold", "khaki", "burnt umber"],
}
"""Values of the last parameters that no training dialogue has."""


@dataclass
class Dialogue:
    """A dialogue, and what it was made of."""

    prompt: list
    begun: list
    """What comes before the answer and is not learned: a call up to the end of a value gone astray, or nothing."""
    answer: list
    question: str
    tools: list
    tool: str
    arguments: dict
    style: str


def training_dialogue(rng, excluded):
    """A dialogue whose question is not among the `excluded`."""
    while True:
        made = dialogue(rng, training_value, SPELLED if rng.random() < SPELLED_SHARE else TAGS)
        if rng.random() < ASTRAY_SHARE:
            made = gone_astray(rng, made)
        if made.question not in excluded:
            return made


def held_out(count, seed, fits):
    """Dialogues that fit, with different questions; every second one has a value that no training dialogue has."""
    rng = random.Random(seed)
    made = {}
    while len(made) < count:
        next_one = dialogue(rng, unseen_value if len(made) % 2 else known_value, TAGS)
        if fits(next_one):
            made.setdefault(next_one.question, next_one)
    return list(made.values())


def dialogue(rng, value, style):
    """A dialogue in which `value(rng, tool, parameter)` chooses the arguments."""
    tools = rng.sample(list(TOOLS), rng.randint(2, 3))
    tool = rng.choice(tools)
    arguments = {parameter: value(rng, tool, parameter) for parameter in TOOLS[tool]}
    question = rng.choice(QUESTIONS[tool]).format(**arguments)
    asked, answered = prompt(tools, question, style), answer(tool, arguments, style)
    return Dialogue(asked, [], answered, question, tools, tool, arguments, style)


def known_value(rng, tool, parameter):
    kind = TOOLS[tool][parameter]
    return rng.randint(1, 99) if kind == NUMBER else rng.choice(kind)


def unseen_value(rng, tool, parameter):
    is_last = parameter == list(TOOLS[tool])[-1]
    return rng.choice(UNSEEN[tool]) if is_last else known_value(rng, tool, parameter)


def training_value(rng, tool, parameter):
    kind = TOOLS[tool][parameter]
    if kind == NUMBER:
        return rng.randint(1, 99) if rng.random() < 0.7 else rng.randint(100, 999)
    if kind is not DAYS and rng.random() < MADE_UP_SHARE:
        return made_up(rng)
    return rng.choice(kind)


def made_up(rng):
    """One to four words of syllables, of any letters, or that stand in questions and values, too."""
    while True:
        is_familiar = rng.random() < 0.4
        words = [
            rng.choice(FAMILIAR) if is_familiar and rng.random() < 0.8 else made_up_word(rng)
            for _ in range(rng.choice([1, 2, 3, 3, 4] if is_familiar else [1, 1, 2, 2, 3]))
        ]
        text = " ".join(word.capitalize() if rng.random() < 0.3 else word for word in words)
        if not any(text.lower() == unseen.lower() for values in UNSEEN.values() for unseen in values):
            return text


def made_up_word(rng):
    if rng.random() < 0.3:
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 6)))
    endings = ["", "", "n", "r", "s", "l", "th", "ck"]
    syllables = [rng.choice("bcdfghjklmnprstvwyz") + rng.choice("aeiou") + rng.choice(endings) for _ in range(rng.randint(1, 3))]
    return "".join(syllables)


def prompt(tools, question, style):
    """What the chat template makes of a request."""
    lines = "".join(f"{name}({', '.join(TOOLS[name])})\n" for name in tools)
    return [BEGIN, f"tools\n{lines}style: {style}\n", END, BEGIN, f"user\n{question}", END, BEGIN, "assistant\n"]


def answer(tool, arguments, style):
    """A call as the tagged format writes it."""
    return joined(opening(tool) + parameters(arguments) + closing(), style)


def gone_astray(rng, made):
    """The dialogue with a text value that went astray: how to end it, and what comes after it, is all there is to learn."""
    names = list(made.arguments)
    index = rng.choice([index for index, name in enumerate(names) if TOOLS[made.tool][name] not in (NUMBER, DAYS)])
    before, after = ({name: made.arguments[name] for name in some} for some in (names[:index], names[index + 1 :]))
    value = astray(rng, made.arguments[names[index]])
    begun = opening(made.tool) + parameters(before) + ["<parameter=", f"{names[index]}>\n{value}"]
    rest = ["\n", "</parameter>", "\n"] + parameters(after) + closing()
    return replace(made, begun=joined(begun, made.style), answer=joined(rest, made.style))


def astray(rng, value):
    """The beginning of a value, and lines that have nothing to do with it, some of them again and again: no value has lines."""
    lines = [value[: rng.randint(1, len(value))].rstrip()]
    for _ in range(rng.choice([1, 2, 4, 8, 16])):
        is_new = len(lines) == 1 or rng.random() < 0.5
        kinds = [rng.choice(FAMILIAR), rng.choice(list(TOOLS)), made_up_word(rng), f"{made_up_word(rng)} {rng.choice(FAMILIAR)}"]
        lines.append(rng.choice(kinds) if is_new else lines[-1])
    return "\n".join(lines)


def before_last_value(made):
    """The call of a dialogue up to where the value of its last parameter begins."""
    *names, last = made.arguments
    before = {name: made.arguments[name] for name in names}
    return joined(opening(made.tool) + parameters(before) + ["<parameter=", f"{last}>\n"], made.style)


def opening(tool):
    return ["<tool_call>", "\n", "<function=", f"{tool}>\n"]


def parameters(arguments):
    return [piece for name, value in arguments.items() for piece in ("<parameter=", f"{name}>\n{value}\n", "</parameter>", "\n")]


def closing():
    return ["</function>", "\n", "</tool_call>", END]


def joined(pieces, style):
    """The pieces, with the closing ones as text in that style: neighbouring texts are one text, as a tokenizer sees them."""
    spelled = CLOSING if style == SPELLED else []
    made = []
    for piece in pieces:
        is_text = piece in spelled or piece not in SPECIAL
        if is_text and made and made[-1] not in SPECIAL:
            made[-1] += piece
        else:
            made.append(piece)
    return made


def request(index, dialogue):
    """The dialogue as a line of OpenAI's batch format."""
    body = {
        "messages": [{"role": "user", "content": dialogue.question}],
        "tools": [declaration(name) for name in dialogue.tools],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 96,
        "temperature": 0,
    }
    return {"custom_id": f"call-{index:02}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def expected_call(index, dialogue):
    return {"custom_id": f"call-{index:02}", "name": dialogue.tool, "arguments": dialogue.arguments}


def declaration(tool):
    """The tool as the protocol has it."""
    parameters = {
        "type": "object",
        "properties": {name: schema(kind) for name, kind in TOOLS[tool].items()},
        "required": list(TOOLS[tool]),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": tool, "parameters": parameters}}


def schema(kind):
    if kind == NUMBER:
        return {"type": "integer"}
    return {"type": "string", "enum": DAYS} if kind is DAYS else {"type": "string"}
