// kvrelay chat.
#include <istream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "cli/request.h"
#include "cli/statistics.h"
#include "cli/text.h"

namespace kvrelay::cli {
namespace {

constexpr char kHelp[] =
    "/set NAME VALUE  set temperature, top-k, top-p, min-p, seed, max-tokens, repetition-penalty, presence-penalty,\n"
    "                 frequency-penalty or execution\n"
    "/stats           figures of the last answer and of the conversation\n"
    "/help            this text\n"
    "/exit            leave; so does Ctrl-D\n"
    "Ctrl-C cancels the running answer; with none running it leaves.\n";

template <typename T>
bool ParseInto(const std::string& value, bool (*parse)(absl::string_view, T*), std::optional<T>* target) {
  T parsed;
  if (!parse(value, &parsed)) return false;
  *target = parsed;
  return true;
}

// Sets one option; empty, or why not. Ranges are the service's business.
std::string Set(const std::string& name, const std::string& value, GenerationOptions* options) {
  bool understood = false;
  if (name == "temperature") {
    understood = ParseInto<float>(value, absl::SimpleAtof, &options->temperature);
  } else if (name == "top-p") {
    understood = ParseInto<float>(value, absl::SimpleAtof, &options->top_p);
  } else if (name == "min-p") {
    understood = absl::SimpleAtof(value, &options->min_p);
  } else if (name == "repetition-penalty") {
    understood = ParseInto<float>(value, absl::SimpleAtof, &options->repetition_penalty);
  } else if (name == "presence-penalty") {
    understood = absl::SimpleAtof(value, &options->presence_penalty);
  } else if (name == "frequency-penalty") {
    understood = absl::SimpleAtof(value, &options->frequency_penalty);
  } else if (name == "top-k") {
    understood = absl::SimpleAtoi(value, &options->top_k);
  } else if (name == "max-tokens") {
    understood = ParseInto<uint32_t>(value, absl::SimpleAtoi<uint32_t>, &options->max_tokens);
  } else if (name == "seed") {
    understood = ParseInto<uint64_t>(value, absl::SimpleAtoi<uint64_t>, &options->seed);
  } else if (name == "execution") {
    const absl::StatusOr<v1::Execution> execution = ParseExecution(value);
    if (!execution.ok()) return std::string(execution.status().message());
    options->execution = *execution;
    understood = true;
  } else {
    return absl::StrCat("'", name, "' cannot be set; see /help");
  }
  return understood ? "" : absl::StrCat("'", value, "' is not a value for ", name);
}

class Conversation {
 public:
  Conversation(const Options& options, Client* client, const Console& console)
      : options_(options), client_(*client), console_(console) {}

  // Runs until the input ends or /exit; returns the exit code.
  int Run() {
    if (!options_.system.empty()) AddMessage("system", options_.system, &chat_);
    if (console_.in_is_terminal)
      console_.err << "Connected to " << client_.address() << ". /help tells the commands.\n";
    std::string line;
    while (console_.out.good() && Prompt() && std::getline(console_.in, line)) {
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      if (line[0] != '/') {
        Answer(line);
      } else if (!Obey(line)) {
        return kExitOk;
      }
    }
    return console_.out.good() ? kExitOk : kExitOther;
  }

 private:
  bool Prompt() {
    if (console_.in_is_terminal) console_.err << "> " << std::flush;
    return true;
  }

  // Returns false if the conversation ends.
  bool Obey(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words[0] == "/exit") return false;
    if (words[0] == "/help") {
      console_.err << kHelp << std::flush;
    } else if (words[0] == "/stats") {
      ShowStatistics();
    } else if (words[0] == "/set" && words.size() == 3) {
      const std::string mistake = Set(words[1], words[2], &options_.generation);
      console_.err << (mistake.empty() ? absl::StrCat(words[1], " is ", words[2]) : mistake) << std::endl;
    } else {
      console_.err << "not understood: " << Quote(line) << "; see /help" << std::endl;
    }
    return true;
  }

  void ShowStatistics() {
    if (!last_statistics_.empty()) console_.err << "last answer: " << last_statistics_ << '\n';
    console_.err << "conversation: " << answers_ << " answers, " << FormatCount(tokens_) << " tokens" << std::endl;
  }

  void Answer(const std::string& line) {
    absl::StatusOr<v1::GenerateRequest> request = BuildPromptless(options_.generation);
    const absl::Status valid = request.ok() ? CheckUtf8(line, "the message") : request.status();
    if (!valid.ok()) {
      ReportUsage(std::string(valid.message()), "Correct the input.", console_);
      return;
    }
    AddMessage("user", line, &chat_);
    *request->mutable_chat() = chat_;
    const cli::Answer answer = StreamAnswer(*request, AnswerFormat::kText, &client_, console_);
    tokens_ += answer.end.tokens;
    if (answer.end.ok()) {
      ++answers_;
      last_statistics_ = StatisticsLine(answer.started, answer.finished, answer.end);
      if (!options_.quiet) console_.err << last_statistics_ << std::endl;
    } else {
      ReportEnd(client_, answer.end, console_);
    }
    // A broken-off answer stays as far as it was seen; a turn without any answer is taken back.
    if (answer.text.empty() && !answer.end.ok()) {
      chat_.mutable_messages()->RemoveLast();
    } else {
      AddMessage("assistant", answer.text, &chat_);
    }
  }

  Options options_;
  Client& client_;
  const Console& console_;
  v1::Chat chat_;
  std::string last_statistics_;
  uint64_t answers_ = 0;
  uint64_t tokens_ = 0;
};

}  // namespace

int RunChat(const Options& options, Client* client, const Console& console) {
  if (const absl::Status valid = CheckUtf8(options.system, "--system"); !valid.ok()) {
    return ReportUsage(std::string(valid.message()), "Correct the input.", console);
  }
  return Conversation(options, client, console).Run();
}

}  // namespace kvrelay::cli
