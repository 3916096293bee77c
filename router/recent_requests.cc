#include "router/recent_requests.h"

#include "common/rpc/duration.h"

namespace kvrelay::router {

void RecentRequests::Request::Sent(const v1::GenerateResponse& response) {
  v1::RequestSummary& summary = entry_.summary;
  if (response.has_started()) {
    const v1::Started& started = response.started();
    summary.set_request_id(started.request_id());
    summary.set_running(true);
    summary.set_prompt_tokens(started.prompt_tokens());
    *summary.mutable_placement() = started.placement();
    recent_->Put(entry_);
  } else if (response.has_finished()) {  // put in by Ended, which follows at once
    const v1::Finished& finished = response.finished();
    summary.set_reason(finished.reason());
    summary.set_completion_tokens(finished.usage().completion());
    summary.set_cached_tokens(finished.usage().cached());
    *summary.mutable_first_token() = finished.timings().first_token();
    summary.set_replans(finished.replans());
    summary.set_moves(finished.moves());
  }
}

void RecentRequests::Request::Ended(const absl::Status& status, absl::Duration now) {
  if (absl::IsUnauthenticated(status)) return;  // nobody's: strangers must not push out what clients look at
  entry_.summary.set_running(false);
  entry_.summary.set_code(static_cast<uint32_t>(status.raw_code()));
  *entry_.summary.mutable_duration() = rpc::ToProto(now - entry_.arrival);
  recent_->Put(entry_);
}

void RecentRequests::Put(Request::Entry& entry) {
  absl::MutexLock lock(&mutex_);
  if (entry.number == 0) {
    entry.number = ++last_;
    if (entries_.size() == kKept) entries_.pop_front();
    entries_.push_back(entry);
  } else if (entry.number > last_ - entries_.size()) {
    entries_[entry.number - entries_.front().number] = entry;
  }
}

std::vector<v1::RequestSummary> RecentRequests::List(std::optional<std::string_view> client, absl::Duration now) const {
  std::vector<v1::RequestSummary> list;
  absl::MutexLock lock(&mutex_);
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (client && entry->client != *client) continue;
    list.push_back(entry->summary);
    *list.back().mutable_age() = rpc::ToProto(now - entry->arrival);
  }
  return list;
}

}  // namespace kvrelay::router
