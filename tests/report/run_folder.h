// The output folder of a run, as text.
#pragma once

#include "report/run_record.h"
#include "tests/temp_folder.h"

#include <fmt/format.h>

#include <string>

namespace ddp::report {

inline std::string step_line(int64_t step, const std::string& loss, double compute_ms = 4) {
  return fmt::format(
      R"({{"event":"step","step":{},"epoch":{},"loss":{},"lr":0.5,"samples":100,"data_ms":1.0,"compute_ms":{},)"
      R"("exposed_comm_ms":0.0}})"
      "\n",
      step, (step - 1) / 10 + 1, loss, compute_ms);
}

inline std::string eval_line(int64_t step, double accuracy, double loss) {
  return fmt::format(
      R"({{"event":"eval","epoch":{},"step":{},"accuracy":{},"correct":5,"samples":10,"loss":{},"seconds":0.5}})"
      "\n",
      step / 10, step, accuracy, loss);
}

// A run of 20 steps and two epochs on two ranks, that has ended.
class RunFolder {
 public:
  RunFolder() {
    std::string metrics =
        R"({"event":"run","step":0,"time":"2026-11-23T12:20:57Z","version":"0.1.0","model":"lenet","data":"mnist",)"
        R"("epochs":2,"steps_per_epoch":10,"world_size":2,"hosts":["h1","h2"],"device":"CPU","libraries":"oneDNN 2"})"
        "\n";
    for (int64_t step = 1; step <= 20; ++step) {
      metrics += step_line(step, fmt::format("{}", 2.0 / static_cast<double>(step)));
      if (step % 10 == 0) metrics += speed_line(step) + eval_line(step, 0.04 * static_cast<double>(step), 1);
    }
    folder.write("metrics.jsonl", metrics);
    folder.write("summary.json",
                 R"({"model":"lenet","test_accuracy":0.8,"sec_per_epoch":0.05,"samples_per_second":20000.0,)"
                 R"("world_size":2,"device":"CPU","steps":20,"macro_f1":0.7,"per_class":[{"class":"cat","count":6,)"
                 R"("precision":null,"recall":0.5,"f1":0.25},{"class":"dog","count":4,"precision":1.0,"recall":1.0,)"
                 R"("f1":1.0}],"speed":["computing limits this run"]})");
    folder.write("confusion.csv", "class,cat,dog\ncat,3,3\ndog,0,4\n");
  }

  static std::string speed_line(int64_t step) {
    return fmt::format(
        R"({{"event":"speed","epoch":{},"step":{},"ranks":[{{"data_ms":1.0,"compute_ms":{},"exposed_comm_ms":0.5}},)"
        R"({{"data_ms":2.0,"compute_ms":8.0,"exposed_comm_ms":0.25}}],"communication_ms":1.5,"noise_scale":{}}})"
        "\n",
        step / 10, step, step == 10 ? 3.0 : 5.0, step == 10 ? "null" : "320.5");
  }

  RunRecord read(std::string name = "one", Options options = {{"lr", "0.5"}}) const {
    return read_run(folder.path(), std::move(name), std::move(options));
  }

  const TempFolder folder;
};

}  // namespace ddp::report
