// Trap T10: templates come from files that are not trusted; and what ordinary templates may rely on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/tiny_model.h"
#include "tests/text/text_testing.h"

namespace kvrelay::text {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> Render(const std::string& chat_template,
                                   const std::vector<ChatMessage>& messages = {{"user", "hi"}}) {
  TestVocabulary vocabulary;
  vocabulary.chat_template = chat_template;
  const auto tokenizer = vocabulary.MustLoad();
  EXPECT_TRUE(tokenizer->has_chat_template());
  const auto ids = tokenizer->EncodeChat(messages);
  if (!ids.ok()) return ids.status();
  return tokenizer->Decode(*ids, true);
}

void ExpectRefused(const std::string& chat_template, const std::string& words,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto text = Render(chat_template);
  EXPECT_EQ(text.status().code(), code) << text.status();
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(words));
}

TEST(ChatTemplate, WhatATemplateSees) {
  EXPECT_EQ(Render("{{ messages[0].role }}:{{ messages[0]['content'] }}").value(), "user:hi");
  EXPECT_EQ(Render("{{ bos_token }}{{ eos_token }}").value(), "<|im_start|><|im_end|>");
  EXPECT_EQ(Render("{% if add_generation_prompt %}yes{% endif %}").value(), "yes");
  EXPECT_EQ(Render("{% if tools or documents or messages[0].tool_calls %}no{% else %}yes{% endif %}").value(), "yes");
  EXPECT_EQ(Render("{% if tools is none and documents is none %}yes{% endif %}").value(), "yes");
  EXPECT_EQ(
      Render("{{ tools is iterable }} {{ messages is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}").value(),
      "False True True False");
  EXPECT_EQ(Render("{{ nothing | length }}{{ nothing | count }}{{ messages | count }}").value(), "001");
  EXPECT_EQ(Render("[{{ nothing }}]").value(), "[]");
  EXPECT_EQ(Render("{{ strftime_now('%d %b %Y') }}").value(), "26 Jul 2024");
  EXPECT_EQ(Render("{{ messages | length }}", {}).value(), "0");
}

// As transformers sets up Jinja: block tags take their newline and indentation along.
TEST(ChatTemplate, WhitespaceOfBlocks) {
  EXPECT_EQ(Render("{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}\n").value(),
            "hi\n");
}

// Marks of what a model is trained on: what is between them is rendered as if they were not there.
TEST(ChatTemplate, GenerationTags) {
  EXPECT_EQ(Render("a\n{% generation %}\nb{{ messages[0].content }}\n{% endgeneration %}\nc").value(), "a\nbhi\nc");
  EXPECT_EQ(Render("a {%- generation -%} b {%-endgeneration-%} c").value(), "abc");
  EXPECT_EQ(Render("{% set generation = 1 %}{{ generation }} {{ '{% x' }}").value(), "1 {% x");
  ExpectRefused("{% generation %}", "cannot be used", absl::StatusCode::kFailedPrecondition);
}

TEST(ChatTemplate, PythonMethodsAndLoops) {
  EXPECT_EQ(Render("{{ messages[0].content.strip().upper().replace('H', 'h') }}").value(), "hI");
  EXPECT_EQ(Render("{% for x in [1,2,3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}").value(), "13");
  EXPECT_EQ(Render("{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}{% endfor %}"
                   "{{ ns.n }}")
                .value(),
            "1");
  EXPECT_EQ(Render("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}").value(), "<a>");
}

TEST(ChatTemplate, SaysWhyItRefuses) {
  ExpectRefused("{{ raise_exception('Roles must alternate!') }}", "Roles must alternate!");
  ExpectRefused("{{ nothing.more }}", "undefined");
  ExpectRefused("{{ messages[0].content.no_such_method() }}", "refused");
  ExpectRefused("{{ 1 / 'a' }}", "refused");
}

TEST(ChatTemplate, EndlessLoopsStop) {
  ExpectRefused("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps");
  ExpectRefused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion");
  ExpectRefused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "recursion");
}

TEST(ChatTemplate, OutputIsBounded) {
  ExpectRefused("{% for a in range(5000) %}{{ 'x' * 1000 }}{% endfor %}", "bytes");
  ExpectRefused("{{ 'x' * 50000000 }}", "bytes");
  ExpectRefused("{{ 'x' * 5000000000 }}", "too large");
}

// Few steps can ask for any amount of memory. The template gets no second chance; the model's plain text is served on.
TEST(ChatTemplate, MemoryIsBounded) {
  for (const std::string source :
       {"{% set ns = namespace(a='x' * 1000) %}{% for i in range(40) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{{ ([0] * 1000000000000) | list | length }}", "{{ (['x' * 1000000] * 1000) | join | length }}"}) {
    TestVocabulary vocabulary;
    vocabulary.chat_template = source;
    const auto tokenizer = vocabulary.MustLoad();
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = tokenizer->EncodeChat(Messages({{"user", "a"}})).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << source;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("memory")) << source;
    }
    EXPECT_TRUE(tokenizer->EncodeText("a").ok());
  }
}

TEST(ChatTemplate, TheImpossibleIsTheTemplatesFault) {
  ExpectRefused("{{ ([0] * 4611686018427387904) | list | length }}", "engine", absl::StatusCode::kFailedPrecondition);
}

TEST(ChatTemplate, DeepValuesDoNotOverflowTheStack) {
  const std::vector<ChatMessage> many(4096, {"user", ""});
  const std::string nest =
      "{% set ns = namespace(x=[]) %}{% for a in range(9000) %}{% for b in range(9000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}{% endfor %}";
  EXPECT_EQ(Render(nest, many).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, ReachesNothingOutside) {
  ExpectRefused("{% include '/etc/passwd' %}", "template");
  ExpectRefused("{% import 'other' as o %}", "template");
  ExpectRefused("{% extends 'other' %}", "template");
  ExpectRefused("{% include 'chat_template' %}", "include");  // itself, until the recursion limit
  ExpectRefused("{{ messages.__class__.__mro__ }}", "undefined");
  ExpectRefused("{{ ''.__class__.__base__.__subclasses__() }}", "undefined");
  ExpectRefused("{{ open('/etc/passwd') }}", "unknown function");
}

TEST(ChatTemplate, UnreadableOneLeavesPlainTextServed) {
  for (const std::string& source :
       std::vector<std::string>{"{% for %}", "{{ '", "{% frobnicate %}", "{{ " + std::string(100000, '(') + " }}"}) {
    TestVocabulary vocabulary;
    vocabulary.chat_template = source;
    const auto tokenizer = vocabulary.MustLoad();
    EXPECT_TRUE(tokenizer->EncodeText("a").ok());
    EXPECT_EQ(tokenizer->EncodeChat(Messages({{"user", "a"}})).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(ChatTemplate, ModelWithoutTemplate) {
  const auto tokenizer = TestVocabulary().MustLoad();
  EXPECT_FALSE(tokenizer->has_chat_template());
  EXPECT_EQ(tokenizer->EncodeChat(Messages({{"user", "a"}})).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace kvrelay::text
