#!/usr/bin/env python3
"""Published chat templates, rendered by kvrelay and by Jinja: templates.py RENDER ARCHIVE. Called by ./dev templates.

RENDER is the program kvrelay_render, ARCHIVE the source package of llama-cpp-python, which holds the templates of many
models. Jinja is set up as transformers does. A template may refuse a conversation: then kvrelay must refuse it too, but
for what Jinja cannot do with none, as to loop over it; there kvrelay does nothing.
"""

import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# What a template may see: one turn, several, with and without a system message, spaces at the ends, text of many kinds.
CONVERSATIONS = [
    [("user", "What is the capital of France?")],
    [("system", "Answer in one short sentence."), ("user", "Why is the sky blue?")],
    [("user", "Hello"), ("assistant", "Hi there!"), ("user", "How are you?")],
    [("system", "You are terse."), ("user", "1 + 1?"), ("assistant", "2"), ("user", "2 + 2?"), ("assistant", "4"),
     ("user", "Thanks.")],
    [("user", "  spaces around, \n\ntwo line ends\n ")],
    [("user", "{{ 7 * 7 }} {% raw %} <b>\"quotes\" & 'apostrophes'</b> \\ back")],
    [("user", "안녕하세요 🙂 naïve Ω")],
    [("user", "Compute."), ("assistant", "<think>\nLet me see.\n</think>\n\nDone."), ("user", "Again.")],
    [("assistant", "I begin."), ("user", "Then I.")],
    [("user", "one"), ("user", "two")],
]
LEAST_TEMPLATES = 20


class Generation(jinja2.ext.Extension):
  """{% generation %}...{% endgeneration %}, which transformers has too: renders what is between them."""
  tags = {"generation"}

  def parse(self, parser):
    line = next(parser.stream).lineno
    body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
    return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

  def render(self, caller):
    return caller()


def environment():
  def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)

  def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

  made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
  made.filters["tojson"] = tojson
  made.globals["raise_exception"] = raise_exception
  # The day that kvrelay gives to every template.
  day = {"a": "Fri", "A": "Friday", "b": "Jul", "B": "July", "d": "26", "m": "07", "y": "24", "Y": "2024"}
  made.globals["strftime_now"] = lambda format: re.sub("%([aAbBdmyY])", lambda match: day[match[1]], format)
  return made


def by_jinja(template, conversation):
  """The text, or None and why it refused."""
  messages = [{"role": role, "content": content} for role, content in conversation]
  try:
    return template.render(messages=messages, tools=None, documents=None, add_generation_prompt=True,
                           bos_token="<|im_start|>", eos_token="<|im_end|>"), ""
  except Exception as error:  # whatever a template can raise
    return None, f"{type(error).__name__}: {error}"


def by_kvrelay(render, path, conversation):
  words = [word for message in conversation for word in message]
  done = subprocess.run([render, path, *words], capture_output=True, check=False)
  if done.returncode == 0:
    return done.stdout.decode(), ""
  if done.returncode != 3:
    sys.exit(f"{render} ended with {done.returncode}: {done.stderr.decode()}")
  return None, done.stderr.decode().strip()


def main():
  render, archive = sys.argv[1:]
  good, bad = 0, []
  with tempfile.TemporaryDirectory() as work, tarfile.open(archive) as package:
    print(f"{'template':52} {'equal':>6} {'both refuse':>12} {'Jinja cannot':>13} {'different':>10}")
    for member in package.getmembers():
      if not re.search(r"/models/templates/[^/]+\.jinja$", member.name):
        continue
      source = package.extractfile(member).read().decode()
      name = pathlib.Path(member.name).stem
      path = pathlib.Path(work) / "template.jinja"
      path.write_text(source)
      try:
        template = environment().from_string(source)
      except jinja2.TemplateError as error:
        print(f"{name:52} Jinja cannot read it: {error}")
        continue
      equal = refused = lenient = 0
      different = []
      for number, conversation in enumerate(CONVERSATIONS):
        (want, why), (got, words) = by_jinja(template, conversation), by_kvrelay(render, path, conversation)
        if want == got:
          equal += want is not None
          refused += want is None
        elif want is None and "NoneType" in why:
          lenient += 1
        else:
          different.append(f"  conversation {number}:\n    Jinja   {want!r} {why}\n    kvrelay {got!r} {words}")
      print(f"{name:52} {equal:6} {refused:12} {lenient:13} {len(different):10}", flush=True)
      if different:
        bad.append((name, different))
      elif equal > 0:
        good += 1
  for name, different in bad:
    print(f"\n{name}", *different[:3], sep="\n")
  print(f"\n{good} templates render as in Jinja, {len(bad)} do not")
  sys.exit(0 if good >= LEAST_TEMPLATES and not bad else 1)


if __name__ == "__main__":
  main()
