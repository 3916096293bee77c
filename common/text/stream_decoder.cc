#include "common/text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"

namespace kvrelay::text {

StreamDecoder::StreamDecoder(std::vector<std::string> stop, bool keep_stop) : keep_stop_(keep_stop) {
  for (std::string& each : stop) {
    if (!each.empty()) matchers_.push_back(MakeMatcher(std::move(each)));
  }
}

StreamDecoder::Matcher StreamDecoder::MakeMatcher(std::string stop) {
  std::vector<size_t> fallback(stop.size() + 1, 0);
  for (size_t i = 1; i < stop.size(); ++i) {
    size_t length = fallback[i];
    while (length > 0 && stop[length] != stop[i]) length = fallback[length];
    fallback[i + 1] = stop[length] == stop[i] ? length + 1 : 0;
  }
  return {.stop = std::move(stop), .fallback = std::move(fallback)};
}

bool StreamDecoder::Advance(Matcher& matcher, char byte) {
  size_t& matched = matcher.matched;
  while (matched > 0 && matcher.stop[matched] != byte) matched = matcher.fallback[matched];
  if (matcher.stop[matched] == byte) ++matched;
  if (matched < matcher.stop.size()) return false;
  matched = matcher.fallback[matched];
  return true;
}

StreamDecoder::Piece StreamDecoder::Add(std::string_view bytes, bool may_stop) {
  bytes_.append(bytes);
  const size_t old_size = held_.size();
  bytes_.erase(0, AppendValidUtf8(bytes_, held_));

  size_t stop_start = held_.size();
  const Matcher* stopped = nullptr;
  size_t still_open = 0;
  for (Matcher& matcher : matchers_) {
    for (size_t i = old_size; i < held_.size(); ++i) {
      if (!Advance(matcher, held_[i]) || !may_stop) continue;
      const size_t start = i + 1 - matcher.stop.size();
      const bool is_better = stopped == nullptr || start < stop_start ||
                             (start == stop_start && matcher.stop.size() > stopped->stop.size());
      if (is_better) {
        stopped = &matcher;
        stop_start = start;
      }
    }
    still_open = std::max(still_open, matcher.matched);
  }
  if (stopped != nullptr) {
    const size_t end = stop_start + (keep_stop_ ? stopped->stop.size() : 0);
    Piece piece = {.text = held_.substr(0, end), .stopped = true, .stop = stopped->stop};
    held_.clear();
    bytes_.clear();
    return piece;
  }
  Piece piece;
  piece.text = held_.substr(0, held_.size() - still_open);
  held_.erase(0, piece.text.size());
  return piece;
}

std::string StreamDecoder::Flush() {
  std::string text = std::exchange(held_, {});
  if (!std::exchange(bytes_, {}).empty()) text.append(kReplacementCharacter);
  return text;
}

}  // namespace kvrelay::text
