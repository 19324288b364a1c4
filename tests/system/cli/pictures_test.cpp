// Runs on pictures in files.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/png.h"
#include "tests/system/cli/program.h"
#include "tests/system/cli/run_folder.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// A safetensors file without its header, whose metadata name the classes.
std::string tensors_of(const fs::path& file) {
  const std::string content = read_file(file);
  uint64_t length = 0;
  if (content.size() < sizeof length) return "";
  std::memcpy(&length, content.data(), sizeof length);
  return content.substr(sizeof length + length);
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

TEST(PicturesOfIdxImages, GiveTheWeightsOfTheIdxRun) {
  const TempFolder folder;
  few_images(folder / "idx", 400, 100);
  std::string rows = "split,label,path\n";
  for (const auto& [part, split, images] : {std::tuple("train", "train", 400), std::tuple("t10k", "val", 100)}) {
    const std::string pixels = read_file(folder / "idx" / fmt::format("{}-images-idx3-ubyte", part)),
                      labels = read_file(folder / "idx" / fmt::format("{}-labels-idx1-ubyte", part));
    fs::create_directories(folder / "png" / part);
    for (int i = 0; i < images; ++i) {
      const std::string name = fmt::format("{}/{}.png", part, 1000 - i);  // not in the order of the names
      write_png(folder / "png" / name, 28, 28, 1,
                {reinterpret_cast<const uint8_t*>(pixels.data()) + 16 + 784 * i, 784});
      rows += fmt::format("{},{},{}\n", split, int{labels[8 + i]}, name);
    }
  }
  write_text(folder / "labels.csv", rows);
  const auto train = [&](const char* run, const std::string& options) {
    const Outcome outcome = program(2, fmt::format("--batch-size 32 --epochs 2 --print-freq 0 --output-dir {} {}",
                                                   (folder / run).string(), options));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return tensors_of(folder / run / "model.safetensors");
  };
  const std::string idx = train("a", fmt::format("--data-path {}", (folder / "idx").string()));
  EXPECT_GT(idx.size(), 4u * 129'000);
  EXPECT_TRUE(idx == train("b", fmt::format("--data-path {} --labels {} --mean none --workers 3",
                                            (folder / "png").string(), (folder / "labels.csv").string())));
  const Outcome ignored = program(0, fmt::format("--data-path {} --labels {} --val-resize-size 40",
                                                 (folder / "png").string(), (folder / "labels.csv").string()));
  EXPECT_EQ(ignored.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(ignored.output, "--val-resize-size has no effect"), 1) << ignored.output;
  EXPECT_FALSE(idx == train("c", fmt::format("--data-path {} --labels {} --mean measured --workers 3",
                                             (folder / "png").string(), (folder / "labels.csv").string())));
}

// Two classes of links to pictures of many kinds.
class PictureFolder : public ::testing::Test {
 protected:
  PictureFolder() {
    int number = 0, index = 0;
    for (const char* name : {"rgb.jpg", "sampling-2x2.jpg", "grey.jpg", "exif-6.jpg", "cmyk.jpg", "rgba.png",
                             "palette-4.png", "grey-16.png", "progressive.jpg", "sampling-grey.jpg"}) {
      const std::string kind = std::string(name).ends_with("jpg") ? ".jpg" : ".png";
      for (int copy = 0; copy < 6; ++copy, ++number)
        link(name,
             fmt::format("{}/{}/{}{}", copy == 5 ? "val" : "train", (index + copy) % 2 ? "dog" : "cat", number, kind));
      ++index;
    }
  }

  void link(const char* picture, const std::string& name) const {
    fs::create_directories((data / name).parent_path());
    fs::create_symlink(fs::path(DDP_PICTURES) / picture, data / name);
  }
  Outcome train(int ranks, const std::string& run, const std::string& options) const {
    return program(ranks, fmt::format("--model keras-convnet --train-crop-size 32 --batch-size 8 --print-freq 0 "
                                      "--data-path {} --output-dir {} {}",
                                      data.string(), (folder / run).string(), options));
  }

  const TempFolder folder;
  fs::path data = folder / "pictures";
};

TEST_F(PictureFolder, AfterAKillEndsWithTheSameBytes) {
  const std::string augmented =
      "--epochs 3 --auto-augment ra --ra-magnitude 20 --crop-padding 4 --padding-mode reflect --hflip 0.5 "
      "--rrc-scale 0.3,1 --bn-stats running --lr 0.01 ";
  const Outcome whole = train(2, "whole", augmented + "--save-every never --workers 1");
  ASSERT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(count(whole.output, "folder: 50 training and 10 test samples of 2 classes, 32 x 32 x 3"), 1)
      << whole.output;
  EXPECT_EQ(count(whole.output, "rrc 32 x 32 scale 0.3,1"), 1) << whole.output;
  EXPECT_EQ(count(whole.output, "18 of 60 pictures are grey"), 1) << whole.output;

  const std::string saves = augmented + "--save-every 5steps ";
  const Outcome killed = train(2, "cut", saves + "--workers 7 --inject rank=1,step=12,kind=kill");
  ASSERT_TRUE(was_killed(killed.code)) << killed.code << "\n" << killed.output;
  ASSERT_FALSE(fs::exists(folder / "cut" / "model.safetensors"));
  fs::rename(data, folder / "moved");  // a resumed run may have its data elsewhere
  data = folder / "moved";
  const Outcome resumed = train(2, "cut", saves + "--workers 2 --resume auto");
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, " at step 10\n"), 1) << resumed.output;
  EXPECT_EQ(count(resumed.output, "not bit-identical"), 0) << resumed.output;
  EXPECT_TRUE(read_file(folder / "cut" / "model.safetensors") == read_file(folder / "whole" / "model.safetensors"));

  link("rgb.jpg", "train/cat/new.jpg");
  const Outcome other = train(2, "cut",
                              "--epochs 3 --auto-augment none --crop-padding 3 --hflip 0.25 --rrc-scale 0.3,1 "
                              "--interpolation bicubic --channels 1 --lr 0.01 "
                              "--save-every 5steps --resume auto");
  EXPECT_EQ(other.code, static_cast<int>(Exit::usage)) << other.output;
  for (const char* part :
       {"data set was 50 and 10 images of 32 x 32 x 3 (", "is 51 and 10 images of 32 x 32 x 1 (",
        "mean and std was measured 0.", "is measured 0.", "input was rrc 32 x 32 scale 0.3,1",
        "crop padding 4 reflect, flips 0.5, is rrc 32 x 32 ", "bicubic, crop padding 3 reflect, flips 0.25"})
    EXPECT_EQ(count(other.output, part), 1) << part << "\n" << other.output;
}

TEST_F(PictureFolder, SplitsOffTheSameValidationDataAtAnyWorldSize) {
  fs::remove_all(data / "val");
  for (const char* kind : {"cat", "dog"}) fs::rename(data / "train" / kind, data / kind);
  fs::remove(data / "train");
  std::string listing;
  for (const int ranks : {1, 3}) {
    const std::string run = fmt::format("run{}", ranks);
    const Outcome outcome = train(ranks, run, "--val-split 0.3 --max-steps 1");
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    const std::string listed = read_file(folder / run / "validation.txt");
    EXPECT_TRUE(listing.empty() || listing == listed);
    listing = listed;
    const auto chosen = std::ranges::count(listing, '\n');
    EXPECT_EQ(count(outcome.output, fmt::format("{} training and {} test samples", 50 - chosen, chosen)), 1)
        << outcome.output;
    EXPECT_GE(chosen, 7);
    EXPECT_LE(chosen, 23);
  }
  const Outcome without = train(1, "without", "--max-steps 1");
  ASSERT_EQ(without.code, 0) << without.output;
  EXPECT_EQ(count(without.output, "no test samples: no evaluation"), 1) << without.output;
  EXPECT_EQ(count(without.output, "test acc: not evaluated"), 1) << without.output;
  for (const std::string option : {"--eval-every 2", "--early-stop 2", "--lr-scheduler plateau"}) {
    const Outcome refused = train(0, "refused", option);
    EXPECT_EQ(refused.code, static_cast<int>(Exit::usage)) << refused.output;
    const std::string name = option.substr(0, option.find(" 2"));
    EXPECT_EQ(count(refused.output, name + " needs validation data: the data set has none; leave it out"), 1)
        << refused.output;
  }
}

TEST_F(PictureFolder, LeavesOutBrokenPicturesIfAsked) {
  write_text(data / "train/cat/page.jpg", "<html>");
  write_text(data / "train/dog/empty.png", "");
  const Outcome refused = train(2, "stop", "");
  EXPECT_EQ(refused.code, static_cast<int>(Exit::data)) << refused.output;
  EXPECT_EQ(count(refused.output, "error:"), 1) << refused.output;
  for (const char* text : {"2 of 52 training pictures cannot be read",
                           "train/cat/page.jpg: ", "train/dog/empty.png: ", "give --on-error skip"})
    EXPECT_EQ(count(refused.output, text), 1) << text << "\n" << refused.output;
  EXPECT_FALSE(fs::exists(folder / "stop"));

  fs::rename(data, folder / "not-utf8-\xff");
  data = folder / "not-utf8-\xff";
  const std::string jpeg = read_file(fs::path(DDP_PICTURES) / "rgb.jpg");
  std::string png = read_file(fs::path(DDP_PICTURES) / "rgb.png");
  png[png.size() - 14] = static_cast<char>(png[png.size() - 14] ^ 1);           // in the last checksum of the pixels
  write_text(data / "train/cat/cut.jpg", jpeg.substr(0, jpeg.size() * 3 / 4));  // whose headers are good
  write_text(data / "train/dog/sum.png", png);
  write_text(data / "train/cat/phone.heic", "x");
  link("animated.webp", "train/cat/moves.webp");
  write_text(data / "train/cat/two\nlines.txt", "x");
  const Outcome skipped = train(3, "skip", "--on-error skip --epochs 1");
  ASSERT_EQ(skipped.code, 0) << skipped.output;
  EXPECT_EQ(count(skipped.output, "51 training and 10 test samples"), 1) << skipped.output;
  EXPECT_EQ(count(skipped.output, "4 of 55 training pictures cannot be read; they are left out:\n"), 1);
  const std::string listed = read_file(folder / "skip" / "skipped-training.txt");
  EXPECT_EQ(count(listed, "\n"), 4) << listed;
  for (const char* name : {"page.jpg: ", "cut.jpg: ", "empty.png: ", "sum.png: "}) EXPECT_EQ(count(listed, name), 1);
  EXPECT_EQ(count(skipped.output, "1 of 61 pictures are animated: the first frame is read"), 1) << skipped.output;
  EXPECT_EQ(count(skipped.output, "1 .heic file is not read; convert it: "), 1) << skipped.output;
  EXPECT_EQ(count(skipped.output, "warning: 50 training pictures are validation pictures too:\n"), 1);
  EXPECT_EQ(count(skipped.output, "\n  train/cat/0.jpg and val/dog/5.jpg\n"), 1) << skipped.output;
  EXPECT_EQ(count(skipped.output, " and val/"), 20) << skipped.output;
}

// While it lives, the disk fails for one file (failing_disk.cpp), from the time on when `when` exists.
class FailingDisk {
 public:
  FailingDisk(const char* fault, const char* file, const fs::path& when) {
    ::setenv("DDP_DISK_FAULT", fault, 1);
    ::setenv("DDP_DISK_FILE", file, 1);
    ::setenv("DDP_DISK_WHEN", when.c_str(), 1);
    ::setenv("LD_PRELOAD", DDP_FAILING_DISK, 1);
  }
  ~FailingDisk() {
    for (const char* name : {"LD_PRELOAD", "DDP_DISK_FAULT", "DDP_DISK_FILE", "DDP_DISK_WHEN"}) ::unsetenv(name);
  }
};

// The check finds the picture good; from the first step on it cannot be read. Rank 1 dies in the step that excludes it.
TEST_F(PictureFolder, ExcludesAPictureThatBreaksAndResumesToTheSameBytes) {
  const std::string options = "--on-error skip --epochs 2 --bn-stats running --lr 0.01 ";
  const std::string file = (data / "train/cat/0.jpg").string();
  const auto broken_in = [&](const char* run) {
    return FailingDisk("EIO", "train/cat/0.jpg", folder / run / "config.toml");
  };
  int64_t step = 0;
  {
    const auto disk = broken_in("whole");
    const Outcome whole = train(2, "whole", options + "--save-every never");
    ASSERT_EQ(whole.code, 0) << whole.output;
    EXPECT_EQ(count(whole.output, "warning: 1 training picture has broken and is excluded (1 of 50 by now):\n"), 1)
        << whole.output;
    EXPECT_EQ(count(whole.output, fmt::format("\n  cannot read {}: Input/output error (errno 5), from step ", file)), 1)
        << whole.output;
    for (const int epoch : {1, 2})
      EXPECT_EQ(count(whole.output, fmt::format("epoch {}/2 saw each of 49 samples once; 1 excluded\n", epoch)), 1)
          << whole.output;
    const auto excluded = events(folder / "whole", "excluded");
    ASSERT_EQ(excluded.size(), 1u);
    step = excluded[0].at("step");
  }
  const std::string listed = read_file(folder / "whole" / "skipped-training.txt");
  EXPECT_EQ(listed, fmt::format("  cannot read {}: Input/output error (errno 5), from step {} on\n", file, step));

  const auto disk = broken_in("cut");
  const Outcome killed =
      train(2, "cut", options + fmt::format("--save-every 1steps --inject rank=1,step={},kind=kill", step));
  ASSERT_TRUE(was_killed(killed.code)) << killed.code << "\n" << killed.output;
  const Outcome resumed = train(2, "cut", options + "--save-every 5steps --resume auto");
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, "the check decoded 0 of 60 pictures; the others have not changed since"), 1)
      << resumed.output;
  EXPECT_EQ(count(resumed.output, file), 1) << resumed.output;
  EXPECT_EQ(read_file(folder / "cut" / "skipped-training.txt"), listed);
  EXPECT_TRUE(read_file(folder / "cut" / "model.safetensors") == read_file(folder / "whole" / "model.safetensors"));
}

// The first checkpoint is there when the disk fails. The run saves before it ends.
TEST_F(PictureFolder, OnAFailingDiskEndsWithTheFilesName) {
  const std::string reads_on =
      "--train-transform rrc --check-data none --mean 0.5 --std 0.2 --eval-every 0 --save-every 1epochs --epochs 1000 ";
  const std::string file = (data / "train/cat/0.jpg").string();
  struct DiskFault {
    const char* fault;
    int ranks;
    const char* options;
    Exit code;
    std::vector<std::string> texts;
  };
  const std::vector<DiskFault> cases = {
      {"EIO", 2, "", Exit::data, {"error: ", fmt::format("cannot read {}: Input/output error (errno 5)", file)}},
      {"hang",
       0,
       "--step-timeout 4",
       Exit::communication,
       {"has been in the data loader for ", fmt::format("has waited 2 s for data; reads {}\n", file)}},
      {"vanish",
       0,
       "",
       Exit::data,
       {"error: ", fmt::format("cannot read {}: No such file or directory (errno 2); it was there", file)}}};
  for (const DiskFault& c : cases) {
    SCOPED_TRACE(c.fault);
    const fs::path latest = folder / c.fault / "checkpoints/latest";
    const FailingDisk disk(c.fault, "train/cat/0.jpg", latest);
    const Outcome outcome = train(c.ranks, c.fault, reads_on + c.options);
    EXPECT_EQ(outcome.code, static_cast<int>(c.code)) << outcome.output;
    for (const std::string& text : c.texts) EXPECT_EQ(count(outcome.output, text), 1) << text << "\n" << outcome.output;
    EXPECT_TRUE(fs::exists(latest / "manifest.json"));
    if (c.code != Exit::data) continue;
    const int64_t saved = nlohmann::json::parse(read_file(latest / "state.json")).at("step");
    EXPECT_EQ(
        count(outcome.output,
              fmt::format("\nstep {} is saved: mend the data and resume the run, or resume it with --on-error skip\n",
                          saved)),
        1)
        << outcome.output;
  }
}

TEST_F(PictureFolder, AreEvaluatedOnASlowDiskUntilASignal) {
  ASSERT_EQ(train(0, "run", "--max-steps 1 --eval-every 0 --mean 0.5 --std 0.2").code, 0);
  const auto evaluation = [&](const std::string& part) {
    return fmt::format("evaluate {} --data-path {} --check-data none --batch-size 2 ", (folder / "run").string(),
                       (data / part).string());
  };
  {
    const FailingDisk disk("hang", "dog/0.jpg", data);
    fs::rename(data / "train/cat/0.jpg", data / "train/dog/0.jpg");
    const Outcome outcome = program(0, evaluation("train") + "--step-timeout 4");
    EXPECT_EQ(outcome.code, static_cast<int>(Exit::communication)) << outcome.output;
    const std::string file = (data / "train/dog/0.jpg").string();
    EXPECT_EQ(count(outcome.output, fmt::format("has waited 2 s for data; reads {}\n", file)), 1) << outcome.output;
  }
  const FailingDisk disk("slow", "g", data);
  Job job(folder, 2, evaluation("train") + fmt::format("--output-dir {}", (folder / "figures").string()));
  ASSERT_TRUE(job.says("so all pictures are evaluated"));
  ::kill(job.rank(1), SIGTERM);
  EXPECT_EQ(job.end(), static_cast<int>(Exit::stopped)) << job.output();
  EXPECT_EQ(count(job.output(), "stopped by a signal before the end: there are no figures"), 1) << job.output();
  EXPECT_FALSE(fs::exists(folder / "figures" / "evaluation.json"));
}

TEST_F(PictureFolder, AreReadAgainAfterAStaleHandle) {
  const FailingDisk disk("ESTALE", "train/cat/0.jpg", data);
  const Outcome outcome = train(0, "run", "--max-steps 1");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

// By a clock by which computing takes no time (waiting_clock.cpp), a step is the wait for its data.
TEST_F(PictureFolder, OnASlowDiskLimitTheRun) {
  const FailingDisk disk("slow", "g", data);
  ::setenv("LD_PRELOAD", DDP_FAILING_DISK ":" DDP_WAITING_CLOCK, 1);
  ::setenv("DDP_CLOCK", "waits", 1);
  const Outcome outcome = train(2, "run",
                                "--train-transform rrc --check-data none --mean 0.5 --std 0.2 --workers 1 "
                                "--train-samples 48 --max-steps 6 --eval-every 0 --save-every never");
  ::unsetenv("DDP_CLOCK");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "data limit this run: rank "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "% of a step; more --workers read images ahead (now 1)\n"), 1) << outcome.output;
  const auto speed = events(folder / "run", "speed");
  ASSERT_EQ(speed.size(), 1u);
  for (const auto& rank : speed[0].at("ranks")) {
    EXPECT_GT(rank.at("data_ms"), 0.0);
    EXPECT_EQ(rank.at("compute_ms"), 0.0);
  }
}

struct BadFolder {
  const char* name;
  Exit code;
  std::vector<std::string> texts;
  std::string options;
  std::function<void(const fs::path&)> damage = [](const fs::path&) {};
};

TEST_F(PictureFolder, NamesWhatIsWrongOnce) {
  const auto no = [](const fs::path&) {};
  const std::vector<BadFolder> cases = {
      {"as they are", Exit::data, {"--train-transform none needs pictures of one size"}, "--train-transform none", no},
      {"no random crop",
       Exit::usage,
       {"--rrc-scale needs --train-transform rrc"},
       "--train-transform stretch --rrc-scale 0.5,1",
       no},
      {"split twice", Exit::usage, {"--val-split 0.1", "10 validation pictures of their own"}, "--val-split 0.1", no},
      {"two channels",
       Exit::usage,
       {"--mean 0.4,0.4: give one number, or three"},
       "--channels 1 --mean 0.4,0.4 --std 0.2,0.2",
       no},
      {"padding", Exit::usage, {"--crop-padding 32", "reflect"}, "--crop-padding 32 --padding-mode reflect", no},
      {"labels of nothing", Exit::data, {"none.csv"}, "--labels none.csv", no},
      {"no picture data",
       Exit::usage,
       {"--workers needs a folder of pictures", "fashion-mnist"},
       "--dataset fashion-mnist --workers 2",
       no},
      {"unknown class",
       Exit::data,
       {"bird"},
       "",
       [](const fs::path& d) {
         fs::create_directories(d / "val/bird");
         fs::copy_symlink(d / "val/cat/11.jpg", d / "val/bird/1.jpg");
       }},
      {"a pipe",
       Exit::data,
       {"train/cat/pipe.jpg"},
       "",
       [](const fs::path& d) { shell("mkfifo " + (d / "train/cat/pipe.jpg").string()); }},
  };
  for (const BadFolder& bad : cases) {
    SCOPED_TRACE(bad.name);
    bad.damage(data);
    const Outcome outcome = train(bad.name == std::string("unknown class") ? 2 : 0, "bad", bad.options);
    EXPECT_EQ(outcome.code, static_cast<int>(bad.code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    for (const std::string& text : bad.texts)
      EXPECT_GE(count(outcome.output, text), 1) << text << "\n" << outcome.output;
    EXPECT_FALSE(fs::exists(folder / "bad"));
    if (std::string(bad.name) == "unknown class") fs::remove_all(data / "val/bird");
  }
}

}  // namespace
}  // namespace ddp::testing
