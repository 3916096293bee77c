// --file of a load test.
#include <google/protobuf/util/json_util.h>

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/bench/workload.h"
#include "common/base/status_macros.h"

namespace kvrelay::cli::bench {
namespace {

using kvrelay::bench::v1::Item;

constexpr size_t kItemsMax = 1'000'000;
constexpr size_t kLineBytesMax = 16 << 20;
constexpr uint32_t kTokensMax = 1 << 20;
constexpr double kArrivalMax = 1e6;

absl::StatusOr<Item> ParseItem(const std::string& line) {
  if (line.size() > kLineBytesMax) return absl::InvalidArgumentError("is longer than 16 MiB");
  Item item;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &item);
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("is no request: ", status.message().as_string()));
  const int prompts = (item.has_prompt() ? 1 : 0) + (item.token_ids_size() > 0 ? 1 : 0) + (item.prompt_tokens() > 0);
  if (prompts != 1) return absl::InvalidArgumentError("needs one of 'prompt', 'token_ids' and 'prompt_tokens'");
  if (item.prompt_tokens() > kTokensMax || item.max_tokens() < 1 || item.max_tokens() > kTokensMax) {
    return absl::InvalidArgumentError("needs 'max_tokens', and takes 1 to 1048576 there and in 'prompt_tokens'");
  }
  if (!(item.arrival_s() >= 0 && item.arrival_s() <= kArrivalMax)) {
    return absl::InvalidArgumentError("takes 0 to 1000000 seconds in 'arrival_s'");
  }
  return item;
}

absl::Status CheckArrival(const std::vector<Item>& before, const Item& item) {
  if (before.empty()) return absl::OkStatus();
  if (item.has_arrival_s() != before.back().has_arrival_s()) {
    return absl::InvalidArgumentError("differs from the line before: all lines have 'arrival_s', or none");
  }
  if (item.arrival_s() < before.back().arrival_s()) {
    return absl::InvalidArgumentError("arrives before the line above: 'arrival_s' must ascend");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Item>> ReadItems(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  std::vector<Item> items;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<Item> item = ParseItem(line);
    absl::Status status = item.ok() ? CheckArrival(items, *item) : item.status();
    if (status.ok() && items.size() == kItemsMax) status = absl::InvalidArgumentError("is one more than 1000000");
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": line ", number, " ", status.message()));
    }
    items.push_back(*std::move(item));
  }
  if (items.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " holds no request"));
  return items;
}

}  // namespace kvrelay::cli::bench
