// Runs commands of the client in this process, against a FakeService on loopback.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "cli/app.h"
#include "tests/cli/fake_service.h"

namespace kvrelay::cli {

struct Result {
  int code;
  std::string out;
  std::string err;
};

// Runs `kvrelay words...`.
inline Result RunWords(std::vector<std::string> words, const std::string& input = "") {
  std::vector<const char*> argv = {"kvrelay"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  Interrupt interrupt;
  const Console console{in, out, err};
  const int code = RunApp(static_cast<int>(argv.size()), argv.data(), console, &interrupt);
  return {code, out.str(), err.str()};
}

class AppTest : public ::testing::Test {
 protected:
  Result Run(std::vector<std::string> words, const std::string& input = "") {
    words.push_back("--address=" + service_.address());
    return RunWords(std::move(words), input);
  }

  v1::GenerateRequest LastRequest() const { return service_.requests().back(); }

  FakeService service_;
};

// The JSON objects of `out`, one a line.
inline std::vector<nlohmann::json> Lines(const std::string& out) {
  std::vector<nlohmann::json> lines;
  for (const auto line : absl::StrSplit(out, '\n', absl::SkipEmpty())) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace kvrelay::cli
