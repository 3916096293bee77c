#include "common/observability/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvrelay::observability {
namespace {

// Values that are read when they are asked for.
class ReadValues final : public prometheus::Collectable {
 public:
  void Add(const std::string& name, const std::string& help, prometheus::MetricType type,
           std::function<double()> read) {
    values_.push_back({name, help, type, std::move(read)});
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const Value& value : values_) {
      prometheus::ClientMetric metric;
      (value.type == prometheus::MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value.read();
      families.push_back({value.name, value.help, value.type, {std::move(metric)}});
    }
    return families;
  }

 private:
  struct Value {
    std::string name, help;
    prometheus::MetricType type;
    std::function<double()> read;
  };
  std::vector<Value> values_;
};

class Server final : public MetricsServer {
 public:
  // Throws if the address cannot be bound.
  Server(const std::string& listen, const std::shared_ptr<prometheus::Collectable>& counted,
         const std::shared_ptr<prometheus::Collectable>& read)
      : exposer_(listen, /*num_threads=*/2),
        address_(absl::StrCat(listen.substr(0, listen.rfind(':') + 1), exposer_.GetListeningPorts().at(0))) {
    exposer_.RegisterCollectable(counted);
    exposer_.RegisterCollectable(read);
  }
  const std::string& address() const override { return address_; }

 private:
  prometheus::Exposer exposer_;
  const std::string address_;
};

}  // namespace

struct Metrics::State {
  const std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  const std::shared_ptr<ReadValues> values = std::make_shared<ReadValues>();
};

void Counter::Add(double by) { counter_->Increment(by); }

void Histogram::Observe(double value) { histogram_->Observe(value); }

Metrics::Metrics() : state_(std::make_unique<State>()) {}

Metrics::~Metrics() = default;

Counter Metrics::AddCounter(const std::string& name, const std::string& help, const Labels& labels) {
  return Counter(&prometheus::BuildCounter().Name(name).Help(help).Register(*state_->registry).Add(labels));
}

Histogram Metrics::AddHistogram(const std::string& name, const std::string& help, const std::vector<double>& buckets) {
  return Histogram(&prometheus::BuildHistogram().Name(name).Help(help).Register(*state_->registry).Add({}, buckets));
}

void Metrics::AddGauge(const std::string& name, const std::string& help, std::function<double()> read) {
  state_->values->Add(name, help, prometheus::MetricType::Gauge, std::move(read));
}

void Metrics::AddReadCounter(const std::string& name, const std::string& help, std::function<double()> read) {
  state_->values->Add(name, help, prometheus::MetricType::Counter, std::move(read));
}

absl::StatusOr<std::unique_ptr<MetricsServer>> Metrics::Serve(const std::string& listen) {
  try {
    return std::make_unique<Server>(listen, state_->registry, state_->values);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", listen, ": ", error.what()));
  }
}

}  // namespace kvrelay::observability
