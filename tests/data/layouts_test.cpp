// What the program says of folders as people have them. Each test makes the files, and compares the whole text.
#include "core/error.h"
#include "data/csv.h"
#include "data/detect.h"
#include "data/folder.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

struct Layout {
  const char* name;
  std::vector<const char*> files;
  const char* said;         // DATA stands for the folder
  const char* labels = "";  // content of labels.csv; empty: there is none
};

std::string said_of(const TempFolder& data, bool has_labels) {
  std::string text;
  try {
    const std::string kind = has_labels ? "csv" : detect_dataset(data.path());
    const PictureLists lists = has_labels ? list_csv(
                                                data / "labels.csv", data.path(), [] {}, 2)
                                          : list_folder(
                                                data.path(), [] {}, 2);
    text = fmt::format("{}: {} training and {} validation pictures of", kind, lists.train.size(), lists.val.size());
    for (int i = 0; i < lists.train.classes(); ++i) text += fmt::format(" {}", lists.train.class_name(i));
    for (const std::string& note : lists.notes) text += "\n" + note;
  } catch (const Error& error) {
    text = fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  const std::string root = data.path();
  for (size_t at = 0; (at = text.find(root, at)) != text.npos;) text.replace(at, root.size(), "DATA");
  return text;
}

const std::vector<Layout> kLayouts = {
    {"ImageNet",
     {"train/n01440764/n01440764_18.JPEG", "train/n01443537/n01443537_2.JPEG", "val/n01440764/val_00000293.JPEG",
      "val/n01443537/val_00000236.JPEG", "synset_words.txt"},
     "folder: 2 training and 2 validation pictures of n01440764 n01443537"},
    {"ImageNetOfKaggle",
     {"ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_18.xml",
      "ILSVRC/Annotations/CLS-LOC/train/n01443537/n01443537_2.xml",
      "ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_18.JPEG", "ILSVRC/Data/CLS-LOC/train/n01443537/n01443537_2.JPEG",
      "ILSVRC/Data/CLS-LOC/val/val_00000293.JPEG", "LOC_synset_mapping.txt"},
     "3: DATA holds only one class folder, ILSVRC, and a network learns to tell at least two classes apart; probably "
     "meant:\n  --data-path 'DATA/ILSVRC/Data/CLS-LOC'"},
    {"KaggleZip",
     {"archive/PetImages/Cat/0.jpg", "archive/PetImages/Dog/0.jpg", "archive/readme[1].txt"},
     "3: DATA holds only one class folder, archive, and a network learns to tell at least two classes apart; probably "
     "meant:\n  --data-path 'DATA/archive/PetImages'"},
    {"KaggleSets",
     {"training_set/training_set/cats/1.jpg", "training_set/training_set/dogs/1.jpg", "test_set/test_set/cats/2.jpg",
      "test_set/test_set/dogs/2.jpg"},
     "3: DATA holds no classes: all its folders have names of splits: test_set, training_set; the folder of the "
     "training data is named train or training, that of the validation data val, validation, valid, test or testing; "
     "probably meant:\n  --data-path 'DATA/training_set/training_set'"},
    {"Roboflow",
     {"train/cat/1.jpg", "train/dog/2.jpg", "valid/cat/3.jpg", "valid/dog/4.jpg", "test/cat/5.jpg",
      "README.roboflow.txt"},
     "folder: 2 training and 2 validation pictures of cat dog\nvalidation data are those of valid; test is not read"},
    {"RoboflowForDetection",
     {"train/images/1.jpg", "train/labels/1.txt", "valid/images/2.jpg", "valid/labels/2.txt", "data.yaml"},
     "3: DATA/train holds pictures of one class only, images, and a network learns to tell at least two classes apart; "
     "expected is a folder for each class, such as\n  DATA/train/cat/1.jpg\n  DATA/train/dog/2.jpg\n"
     "  DATA/val/cat/3.jpg\nor without train and val, or a file with --labels FILE.csv"},
    {"Nas",
     {"cat/1.jpg", "cat/Thumbs.db", "cat/@eaDir/1.jpg/SYNOPHOTO_THUMB_XL.jpg", "dog/2.jpg", "dog/.AppleDouble/2.jpg",
      "dog/@eaDir/2.jpg/SYNOPHOTO_THUMB_XL.jpg", "#recycle/old.jpg", "@eaDir/x.jpg", "lost+found/1.jpg", "Thumbs.db"},
     "folder: 2 training and 0 validation pictures of cat dog\nnot read: folders of systems, and folders with hidden "
     "files only: #recycle, .AppleDouble, @eaDir (3 times), lost+found"},
    {"MacZip",
     {"train/cat/1.jpg", "train/cat/._1.jpg", "train/dog/2.jpg", "train/.DS_Store", "val/cat/3.jpg", ".DS_Store",
      "__MACOSX/train/cat/._1.jpg", "__MACOSX/._train"},
     "folder: 2 training and 1 validation pictures of cat dog\nnot read: folders of systems, and folders with hidden "
     "files only: __MACOSX"},
    {"MacZipOfAFolder",
     {"pets/cat/1.jpg", "pets/dog/2.jpg", "pets/.DS_Store", "__MACOSX/pets/cat/._1.jpg"},
     "3: DATA holds only one class folder, pets, and a network learns to tell at least two classes apart; probably "
     "meant:\n  --data-path 'DATA/pets'"},
    {"FlatFolderWithACsv",
     {"img/1.jpg", "img/2.jpg", "img/3.jpg"},
     "csv: 2 training and 1 validation pictures of cat dog\nDATA/labels.csv: not read: the columns \"id\"",
     "id,path,label,split\n1,img/1.jpg,cat,Train\n2,img/2.jpg,dog,training\n3,img/3.jpg,cat,TEST\n"},
    {"FlatFolder",
     {"1.jpg", "2.jpg", "list.csv"},
     "3: DATA holds 2 pictures (such as 1.jpg) but no class folders; expected is a folder for each class, such as\n"
     "  DATA/train/cat/1.jpg\n  DATA/train/dog/2.jpg\n  DATA/val/cat/3.jpg\nor without train and val, or a file with "
     "--labels FILE.csv"},
    {"CsvOfAnotherFolder",
     {"images/all/1.jpg", "images/all/2.jpg", "images/1.jpg"},
     "3: DATA/labels.csv: 2 of 2 files are not in DATA:\n  line 2: 1.jpg\n  line 3: 2.jpg; probably meant:\n"
     "  --data-path 'DATA/images/all'",
     "path,label\n1.jpg,cat\n2.jpg,dog\n"},
    {"CsvOfOneClass",
     {"1.jpg", "2.jpg"},
     "3: DATA/labels.csv: all training rows have the label animal, and a network learns to tell at least two classes "
     "apart; columns that are not read: \"breed\"",
     "path,label,breed\n1.jpg,animal,cat\n2.jpg,animal,dog\n"},
    {"CsvWithSplitsAsLabels",
     {"1.jpg", "2.jpg"},
     "3: DATA/labels.csv: all labels have names of splits: Train, valid; name the column of the splits split, and that "
     "of the classes label; columns that are not read: \"class\"",
     "path,class,label\n1.jpg,cat,Train\n2.jpg,dog,valid\n"},
    {"OneLevelDeeper",
     {"cifar/train/cat/1.png", "cifar/train/dog/2.png", "cifar/val/cat/3.png", "cifar/val/dog/4.png"},
     "3: DATA holds only one class folder, cifar, and a network learns to tell at least two classes apart; probably "
     "meant:\n  --data-path 'DATA/cifar'"},
    {"SeveralDataSets",
     {"cifar/train/cat/1.png", "cifar/train/dog/2.png", "cifar/val/cat/3.png", "flowers/train/rose/1.png",
      "flowers/train/tulip/1.png", "notes/1.png"},
     "3: DATA/cifar is no class folder: it holds a data set with folders of training data; probably meant:\n"
     "  --data-path 'DATA/cifar'\n  --data-path 'DATA/flowers'"},
    {"FilesOfMnistOneLevelDeeper",
     {"MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/train-labels-idx1-ubyte"},
     "3: DATA holds only one class folder, MNIST, and a network learns to tell at least two classes apart; probably "
     "meant:\n  --data-path 'DATA/MNIST/raw'"},
    {"CapitalNames",
     {"Train/cat/1.jpg", "Train/dog/2.jpg", "Val/cat/3.jpg"},
     "folder: 2 training and 1 validation pictures of cat dog"},
    {"TrainingAndTesting",
     {"training/cat/1.jpg", "training/dog/2.jpg", "testing/dog/3.jpg"},
     "folder: 2 training and 1 validation pictures of cat dog"},
    {"SplitsOfPictures",
     {"valid/1.jpg", "TEST/2.jpg"},
     "3: DATA holds no classes: all its folders have names of splits: TEST, valid; the folder of the training data is "
     "named train or training, that of the validation data val, validation, valid, test or testing"},
    {"SplitsInTheClasses",
     {"cat/train/1.jpg", "cat/val/2.jpg", "dog/train/3.jpg", "dog/val/4.jpg"},
     "folder: 4 training and 0 validation pictures of cat dog\nwarning: class folders hold folders of splits, such as "
     "DATA/cat/train: all their pictures are training data; for validation data put the classes into the splits, such "
     "as DATA/train/cat"},
    {"WithoutSplits", {"cat/1.jpg", "dog/2.jpg"}, "folder: 2 training and 0 validation pictures of cat dog"},
    {"ClassesWithWordsOfSplits",
     {"freight-train/1.jpg", "passenger-train/2.jpg"},
     "folder: 2 training and 0 validation pictures of freight-train passenger-train"},
    {"WithoutTraining",
     {"cat/1.jpg", "dog/2.jpg", "test/3.jpg"},
     "folder: 3 training and 0 validation pictures of cat dog test\nwarning: the folder DATA/test is a class here, "
     "because there is no folder train"},
};

class Layouts : public ::testing::TestWithParam<Layout> {};

TEST_P(Layouts, AreReadOrRefused) {
  const TempFolder data;
  for (const char* file : GetParam().files) data.write(file);
  const bool has_labels = *GetParam().labels != '\0';
  if (has_labels) data.write("labels.csv", GetParam().labels);
  EXPECT_EQ(said_of(data, has_labels), GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(, Layouts, ::testing::ValuesIn(kLayouts), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ddp
