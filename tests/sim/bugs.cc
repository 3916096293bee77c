#include "tests/sim/bugs.h"

namespace kvrelay::sim {

const std::vector<Bug>& Bugs() {
  static const std::vector<Bug> bugs = {
      {"no_fence", "frames of an attempt that was closed are taken"},
      {"no_digest_check", "KV is published without a look at checksums and digest"},
      {"free_before_receipt", "the prefill worker is done, and lets go, before the receipt"},
      {"open_after_end", "frames are still written after the reservation's owner has ended"},
      {"reservation_kept", "the table keeps the reservation of a call that has ended"},
      {"forgotten_stop", "the end of a decode call does not stop its session in the engine"},
      {"end_at_commit_missed", "a token that ends the request and comes with the KV does not end it"},
      {"held_forever", "a decode worker does not let a stream go on that it has held"},
      {"client_left_waiting", "a stream that was held for its slow client is not resumed"},
      {"move_history_off", "the router counts the history of a move's target one too long"},
      {"retry_same_attempt", "the next attempt has the number of the one before"},
      {"stale_events", "events of a given-up prefill call are taken for those of its successor"},
      {"source_outlives_target",
       "the source of a move is still heard when its target has died and the request is planned anew"},
      {"replan_loses_token", "a new plan starts without the last token of the one before"},
      {"resume_off_by_one", "the text of a resumed stream starts one token early"},
      {"lost_finish", "Finish is not sent when a stop string ends the request"},
  };
  return bugs;
}

}  // namespace kvrelay::sim
