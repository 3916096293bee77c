// Renders a chat template: kvrelay_render FILE ROLE CONTENT [ROLE CONTENT]... prints what the template in FILE makes of
// these messages, with the generation prompt, for a vocabulary whose BOS is <|im_start|> and EOS <|im_end|>. Exit code
// 3: the template refused the messages, or cannot be used; why is on standard error.
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/text/text_testing.h"

int main(int argc, char** argv) {
  using namespace kvrelay::text;
  if (argc < 4 || argc % 2 != 0) {
    std::cerr << "usage: kvrelay_render FILE ROLE CONTENT [ROLE CONTENT]...\n";
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << argv[1] << '\n';
    return 2;
  }
  TestVocabulary vocabulary;
  vocabulary.chat_template.assign(std::istreambuf_iterator<char>(file), {});
  std::vector<ChatMessage> messages;
  for (int i = 2; i < argc; i += 2) messages.push_back({argv[i], argv[i + 1]});
  const auto tokenizer = vocabulary.MustLoad();
  const auto ids = tokenizer->EncodeChat(messages);
  if (!ids.ok()) {
    std::cerr << ids.status().message() << '\n';
    return 3;
  }
  std::cout << tokenizer->Decode(*ids, /*include_control=*/true);
  return 0;
}
