// Numbers about the process, served over HTTP in the text format of Prometheus. A face of the library prometheus-cpp,
// whose headers metrics.cc alone includes.
//
// Labels are told when a metric is made, so that no request can add to their number. Names and units follow
// https://prometheus.io/docs/practices/naming: seconds, bytes, ratios; counters end in _total.
//
// Metrics are made before Serve, by one thread. Counters and histograms are thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace prometheus {
class Counter;
class Histogram;
}  // namespace prometheus

namespace kvrelay::observability {

using Labels = std::map<std::string, std::string>;

// Valid as long as the Metrics it is from.
class Counter {
 public:
  // REQUIRES: by >= 0.
  void Add(double by = 1);

 private:
  friend class Metrics;
  explicit Counter(prometheus::Counter* counter) : counter_(counter) {}
  prometheus::Counter* counter_;
};

// As Counter.
class Histogram {
 public:
  void Observe(double value);

 private:
  friend class Metrics;
  explicit Histogram(prometheus::Histogram* histogram) : histogram_(histogram) {}
  prometheus::Histogram* histogram_;
};

// Answers scrapes until it is destroyed.
class MetricsServer {
 public:
  virtual ~MetricsServer() = default;
  // host:port as bound.
  virtual const std::string& address() const = 0;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;

  // Metrics of one name have the same help, and each has other labels.
  Counter AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  // `buckets`: upper bounds, ascending.
  Histogram AddHistogram(const std::string& name, const std::string& help, const std::vector<double>& buckets);

  // Values that someone else keeps: `read` is called for each scrape, on a thread of the HTTP server, as long as that
  // lives. It must be quick. One of each name.
  void AddGauge(const std::string& name, const std::string& help, std::function<double()> read);
  void AddReadCounter(const std::string& name, const std::string& help, std::function<double()> read);

  // Serves /metrics on host:port; port 0 takes a free one. UNAVAILABLE if it cannot be bound. This object must outlive
  // the server. REQUIRES: `listen` has a port.
  absl::StatusOr<std::unique_ptr<MetricsServer>> Serve(const std::string& listen);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace kvrelay::observability
