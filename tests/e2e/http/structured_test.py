#!/usr/bin/env python3
"""Outputs held to 200 drawn JSON schemas, and to expressions and grammars, by a running service: each must be valid.

Packages are those that `./dev test` fetches, or else those of the Python which runs this.
"""

import concurrent.futures
import json
import random
import re
import sys
import unittest

import service as services  # first: it knows where the packages are
import jsonschema
import openai

SCHEMAS = 200
WORDS = ["id", "name", "color", "size", "tags", "price", "when", "가격", "a b", "x\"y"]

service = None
url = None


def setUpModule():
  global service, url
  service = services.Service()
  url = service.start_router("router")
  service.wait_ready("router")


def tearDownModule():
  complaints = service.stop()
  assert not complaints, "\n".join(complaints)


def complete(**options):
  client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=services.PATIENCE_S)
  return client.completions.create(**({"model": "", "prompt": "Example data:", "temperature": 1, "max_tokens": 400}
                                      | options))


def scalar(draw):
  low = draw.randint(-50, 50)
  return draw.choice([
      {"type": "boolean"}, {"type": "null"},
      {"type": "integer", "minimum": low, "maximum": low + draw.choice([1, 9, 1000])},
      {"type": "string", "maxLength": draw.randint(0, 8)},
      {"type": "string", "pattern": draw.choice(["^[a-z]{2,6}$", "^[A-Z][0-9]{3}$", "^(on|off)$"])},
      {"type": "string", "format": draw.choice(["date", "ipv4", "uuid"])},
      {"enum": draw.sample(["red", 5, None, True, "blue \"x\"", [1, 2], {"k": "v"}], 3)},
      {"const": draw.choice(["fixed", 7, {"deep": [None]}])},
      {"type": ["integer", "null"], "minimum": 0, "maximum": 99}])


def schema(draw, depth=2):
  kind = draw.random()
  if depth == 0 or kind < 0.3:
    return scalar(draw)
  if kind < 0.45:
    most = draw.randint(1, 3)
    return {"type": "array", "items": schema(draw, depth - 1), "minItems": draw.randint(0, most), "maxItems": most}
  if kind < 0.55:
    return {"anyOf": [schema(draw, depth - 1), scalar(draw)]}
  if kind < 0.62:
    return {"$defs": {"part": scalar(draw)}, "type": "object", "properties": {"part": {"$ref": "#/$defs/part"}},
            "required": ["part"], "additionalProperties": False} if depth == 2 else scalar(draw)
  names = draw.sample(WORDS, draw.randint(1, 4))
  return {"type": "object", "properties": {name: schema(draw, depth - 1) for name in names},
          "required": draw.sample(names, draw.randint(0, len(names))), "additionalProperties": False}


class Structured(unittest.TestCase):

  def test_every_output_is_valid(self):
    draw = random.Random(20261201)
    schemas = [schema(draw) for _ in range(SCHEMAS)]

    def one(number):
      wanted = {"type": "json_schema", "json_schema": {"name": "drawn", "schema": schemas[number]}}
      return complete(seed=number, extra_body={"response_format": wanted}).choices[0]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
      choices = list(pool.map(one, range(SCHEMAS)))
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    for wanted, choice in zip(schemas, choices):
      with self.subTest(schema=json.dumps(wanted), text=choice.text):
        self.assertEqual(choice.finish_reason, "stop")
        jsonschema.Draft202012Validator(wanted, format_checker=checker).validate(json.loads(choice.text))
    print(f"{SCHEMAS} schemas: all outputs valid, {len(set(c.text for c in choices))} distinct", file=sys.stderr)

  def test_expressions_grammars_and_choices(self):
    text = lambda **wanted: complete(seed=4, extra_body={"structured_outputs": wanted}).choices[0].text
    self.assertRegex(text(regex="[A-F]{3}-[0-9]{2}"), re.compile(r"\A[A-F]{3}-[0-9]{2}\Z"))
    self.assertIn(text(choice=["yes", "no (really)", "may.be"]), ("yes", "no (really)", "may.be"))
    self.assertRegex(text(grammar='start: "<" DIGIT ("," DIGIT)~2 ">"\nDIGIT: /[0-9]/'), r"\A<\d,\d,\d>\Z")
    chat = openai.OpenAI(base_url=f"{url}/v1", api_key="none").chat.completions.create(
        model="", messages=[{"role": "user", "content": "Give an empty object."}], max_tokens=200, temperature=0,
        response_format={"type": "json_object"}, extra_body={"repetition_penalty": 1.3})
    # Cut off by max_tokens or whole: in any case it begins as one.
    self.assertTrue(chat.choices[0].message.content.startswith("{"))
    if chat.choices[0].finish_reason == "stop":
      self.assertIsInstance(json.loads(chat.choices[0].message.content), dict)


if __name__ == "__main__":
  unittest.main(verbosity=2)
