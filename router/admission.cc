#include "router/admission.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kvrelay::router {

absl::StatusOr<AdmissionQueue::Ticket> AdmissionQueue::Enter(const Request& request, std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  if (!request.admitted_before && places_.size() >= limits_.requests) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the router's queue is full: ", places_.size(), " requests wait; try again later"));
  }
  // One request of any size may wait alone.
  if (!request.admitted_before && !places_.empty() && tokens_ + request.tokens > limits_.tokens) {
    return absl::ResourceExhaustedError(absl::StrCat("the router's queue is full: ", tokens_,
                                                     " tokens wait, this request has ", request.tokens,
                                                     ", the limit is ", limits_.tokens, "; try again later"));
  }
  const absl::Duration order = request.arrival - request.priority * kPriorityStep;
  tokens_ += request.tokens;
  places_.emplace(Order(order, ++last_), Place{request.tokens, std::move(wake)});
  orders_.emplace(last_, order);
  return last_;
}

bool AdmissionQueue::MayTry(Ticket ticket) const {
  std::lock_guard lock(mutex_);
  if (refused_ == 0) return orders_.contains(ticket);
  size_t rank = 0;
  for (auto it = places_.begin(); it != places_.end() && rank < kTrying; ++it, ++rank) {
    if (it->first.second == ticket) return true;
  }
  return false;
}

void AdmissionQueue::OnRefused(Ticket ticket) {
  std::lock_guard lock(mutex_);
  const auto order = orders_.find(ticket);
  if (order == orders_.end()) return;
  refused_ += !std::exchange(places_.at(Order(order->second, ticket)).refused, true);
}

void AdmissionQueue::Leave(Ticket ticket) {
  std::function<void()> last;  // destroyed without the lock
  bool all_may_try = false;
  {
    std::lock_guard lock(mutex_);
    const auto order = orders_.find(ticket);
    if (order == orders_.end()) return;
    const auto place = places_.find(Order(order->second, ticket));
    tokens_ -= place->second.tokens;
    last = std::move(place->second.wake);
    all_may_try = place->second.refused && --refused_ == 0;
    places_.erase(place);
    orders_.erase(order);
  }
  WakeFirst(all_may_try ? SIZE_MAX : kTrying);
}

void AdmissionQueue::Wake() { WakeFirst(kTrying); }

void AdmissionQueue::WakeFirst(size_t count) {
  std::vector<std::function<void()>> first;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [order, place] : places_) {
      if (first.size() == count) break;
      first.push_back(place.wake);
    }
  }
  for (const auto& wake : first) wake();
}

size_t AdmissionQueue::size() const {
  std::lock_guard lock(mutex_);
  return places_.size();
}

}  // namespace kvrelay::router
