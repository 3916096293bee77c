#include "router/request_accounting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace kvrelay::router {
namespace {

// What an entry holds or held.
uint64_t Gained(const wire::Positions& p) { return p.reused() + uint64_t{p.received()} + p.computed(); }
uint64_t Kept(const wire::Positions& p) { return p.kv_ready() + p.discarded(); }

// Guesses that were wrong: computed, and no position of the request.
uint64_t Rejected(const wire::Positions& p) { return p.drafted() - p.accepted(); }

bool WentBack(const wire::Positions& before, const wire::Positions& now) {
  return now.computed() < before.computed() || now.reused() < before.reused() || now.received() < before.received() ||
         now.shipped() < before.shipped() || now.recomputed() < before.recomputed() ||
         now.discarded() < before.discarded() || now.drafted() < before.drafted() || now.accepted() < before.accepted();
}

std::string Describe(const wire::Positions& p) {
  return absl::StrCat("computed ", p.computed(), ", reused ", p.reused(), ", received ", p.received(), ", recomputed ",
                      p.recomputed(), ", discarded ", p.discarded(), ", kv_ready ", p.kv_ready(), ", drafted ",
                      p.drafted(), ", accepted ", p.accepted());
}

}  // namespace

int RequestAccounting::Open(const Worker& worker, bool cached) {
  Entry entry;
  entry.instance = worker.instance();
  entry.role = worker.role;
  entry.cached = cached;
  entry.known_before = HighWater();
  entries_.push_back(std::move(entry));
  return static_cast<int>(entries_.size()) - 1;
}

void RequestAccounting::ReportProgress(int entry, uint32_t computed) {
  Entry& e = entries_[entry];
  if (e.reported) return;
  e.positions.set_computed(computed);
  e.positions.set_kv_ready(computed);
}

absl::Status RequestAccounting::Report(int entry, const wire::Positions& positions) {
  Entry& e = entries_[entry];
  if (Gained(positions) != Kept(positions) || positions.accepted() > positions.drafted() ||
      positions.drafted() > positions.computed() ||
      positions.recomputed() > positions.computed() - positions.drafted()) {
    return absl::InternalError(
        absl::StrCat("accounting of worker ", e.instance, " does not add up: ", Describe(positions)));
  }
  if (e.reported && WentBack(e.positions, positions)) {
    return absl::InternalError(absl::StrCat("accounting of worker ", e.instance, " went back from ",
                                            Describe(e.positions), " to ", Describe(positions)));
  }
  e.positions = positions;
  e.reported = true;
  return absl::OkStatus();
}

absl::Status RequestAccounting::ReportSelected(int entry, const wire::Positions& positions, uint32_t index,
                                               bool own_run) {
  if (absl::Status status = Report(entry, positions); !status.ok()) return status;
  Entry& e = entries_[entry];
  const uint64_t expected = e.cached ? uint64_t{prompt_} + index : 0;
  if (positions.kv_ready() != expected) {
    return absl::InternalError(absl::StrCat("worker ", e.instance, " has KV of ", positions.kv_ready(),
                                            " positions after token ", index, ", expected ", expected));
  }
  if (own_run) ++e.selected;
  return absl::OkStatus();
}

void RequestAccounting::Drop(int entry) {
  wire::Positions& p = entries_[entry].positions;
  p.set_discarded(p.discarded() + p.kv_ready());
  p.set_kv_ready(0);
  if (holder_ == entry) holder_ = -1;
}

uint32_t RequestAccounting::KnownBefore(int entry, uint32_t computed, uint32_t end) const {
  if (computed > end) return 0;
  const uint64_t first = end - computed;
  const uint64_t known = entries_[entry].known_before;
  return known <= first ? 0 : static_cast<uint32_t>(std::min<uint64_t>(known - first, computed));
}

uint64_t RequestAccounting::Recomputed(const Entry& entry) {
  const wire::Positions& p = entry.positions;
  const uint64_t first = p.reused() + uint64_t{p.received()};
  const uint64_t distinct = p.computed() - p.recomputed() - Rejected(p);
  const uint64_t known = entry.known_before <= first ? 0 : std::min(entry.known_before - first, distinct);
  return p.recomputed() + known;
}

uint64_t RequestAccounting::HighWater() const {
  uint64_t high = 0;
  for (const Entry& e : entries_)
    high = std::max(high, Gained(e.positions) - e.positions.recomputed() - Rejected(e.positions));
  return high;
}

std::pair<uint64_t, uint64_t> RequestAccounting::DraftedAndAccepted() const {
  uint64_t drafted = 0, accepted = 0;
  for (const Entry& e : entries_) {
    drafted += e.positions.drafted();
    accepted += e.positions.accepted();
  }
  return {drafted, accepted};
}

v1::PositionAccounting RequestAccounting::Total() const {
  v1::PositionAccounting total;
  total.set_prompt(prompt_);
  total.set_selected(resumed_ + emitted_ + dropped_);
  total.set_emitted(emitted_);
  uint64_t computed = 0, recomputed = 0, discarded = 0, gained = 0, kept = 0;
  uint32_t shipped = 0;
  for (const Entry& e : entries_) {
    computed += e.positions.computed();
    recomputed += Recomputed(e);
    discarded += e.positions.discarded();
    shipped += e.positions.shipped();
    gained += Gained(e.positions);
    kept += Kept(e.positions);
  }
  KV_CHECK(gained == kept, "positions of the workers add up");
  KV_CHECK(recomputed <= computed, "recomputed positions are among the computed ones");
  total.set_computed(computed);
  total.set_recomputed(recomputed);
  total.set_discarded(discarded);
  total.set_shipped(shipped);
  if (holder_ >= 0) {
    const wire::Positions& held = entries_[holder_].positions;
    total.set_reused(held.reused());
    total.set_received(held.received());
    total.set_kv_ready(held.kv_ready());
  }
  return total;
}

std::vector<v1::WorkerPositions> RequestAccounting::Workers() const {
  std::vector<v1::WorkerPositions> workers;
  for (const Entry& e : entries_) {
    auto it = std::find_if(workers.begin(), workers.end(), [&](const v1::WorkerPositions& w) {
      return w.instance() == e.instance && w.role() == e.role;
    });
    if (it == workers.end()) {
      it = workers.emplace(workers.end());
      it->set_instance(e.instance);
      it->set_role(e.role);
      it->mutable_positions()->set_prompt(prompt_);
    }
    v1::PositionAccounting& p = *it->mutable_positions();
    p.set_computed(p.computed() + e.positions.computed());
    p.set_reused(p.reused() + e.positions.reused());
    p.set_received(p.received() + e.positions.received());
    p.set_shipped(p.shipped() + e.positions.shipped());
    p.set_recomputed(p.recomputed() + Recomputed(e));
    p.set_discarded(p.discarded() + e.positions.discarded());
    p.set_kv_ready(p.kv_ready() + e.positions.kv_ready());
    p.set_selected(p.selected() + e.selected);
  }
  return workers;
}

}  // namespace kvrelay::router
