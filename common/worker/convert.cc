#include "common/worker/convert.h"

#include "common/rpc/duration.h"

namespace kvrelay::worker {

v1::EndReason ToProto(sampling::EndReason reason) {
  switch (reason) {
    case sampling::EndReason::kNone:
      return v1::END_REASON_UNSPECIFIED;
    case sampling::EndReason::kEos:
      return v1::END_REASON_EOS;
    case sampling::EndReason::kStopToken:
      return v1::END_REASON_STOP_TOKEN;
    case sampling::EndReason::kLength:
      return v1::END_REASON_LENGTH;
    case sampling::EndReason::kFinishedByRouter:
      return v1::END_REASON_FINISHED_BY_ROUTER;
  }
  return v1::END_REASON_UNSPECIFIED;
}

v1::Positions ToProto(const engine::PositionCounts& counts) {
  v1::Positions proto;
  proto.set_computed(counts.computed);
  proto.set_reused(counts.reused);
  proto.set_received(counts.received);
  proto.set_shipped(counts.shipped);
  proto.set_recomputed(counts.recomputed);
  proto.set_discarded(counts.discarded);
  proto.set_kv_ready(counts.kv_ready);
  proto.set_drafted(counts.drafted);
  proto.set_accepted(counts.accepted);
  return proto;
}

v1::Selected ToProto(const engine::SelectedToken& token, bool logprobs, bool trace) {
  v1::Selected proto;
  proto.set_index(token.index);
  proto.set_token_id(token.selection.token);
  if (logprobs) {
    proto.set_logprob(token.selection.logprob);
    for (const sampling::TopToken& top : token.selection.top) {
      v1::TopToken* added = proto.add_top();
      added->set_token_id(top.id);
      added->set_logprob(top.logprob);
    }
  }
  *proto.mutable_positions() = ToProto(token.counts);
  proto.set_end(ToProto(token.end));
  if (!trace) return proto;
  v1::Run& run = *proto.mutable_run();
  run.set_first_position(token.run.first_position);
  run.set_end_position(token.run.end_position);
  run.set_computed(token.run.computed);
  run.set_recomputed(token.run.recomputed);
  run.set_appended(token.run.appended);
  run.set_positions_read(token.run.positions_read);
  run.set_attention_pairs(token.run.attention_pairs);
  run.set_rejected(token.run.rejected);
  run.set_flops(token.run.flops);
  run.set_kv_bytes_read(token.run.kv_bytes_read);
  *run.mutable_start() = rpc::ToProto(token.run.start);
  *run.mutable_duration() = rpc::ToProto(token.run.duration);
  for (const engine::RunChunk& chunk : token.run.chunks) {
    v1::Chunk& added = *run.add_chunks();
    added.set_first_position(chunk.first_position);
    added.set_end_position(chunk.end_position);
    *added.mutable_start() = rpc::ToProto(chunk.start);
    *added.mutable_duration() = rpc::ToProto(chunk.duration);
  }
  return proto;
}

}  // namespace kvrelay::worker
