#include "tutti/train/other_model.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::test {
namespace {

Config config_of(const std::vector<std::string>& settings) {
    return parse_config("", "test", settings);
}

class OtherModel : public testing::Test {
  protected:
    std::string other(const std::vector<std::string>& there, const std::vector<std::string>& here) const {
        Checkpoint checkpoint;
        checkpoint.config = to_yaml(config_of(there));
        save_checkpoint(path_, checkpoint);
        return other_model(path_, config_of(here));
    }
    const TempDir temp_;
    const std::string path_ = temp_.path() + "/step-00000001.h5";
};

TEST_F(OtherModel, IsSaidByTheSettingsThatDiffer) {
    EXPECT_EQ(other({}, {"model.hidden=[1024, 1024]"}),
              "model.hidden is [512, 512] there and [1024, 1024] here: ");
    EXPECT_EQ(other({"model.layers=[{linear: {out: 3}}]"}, {"model.layers=[{linear: {out: 4}}]"}),
              "model.layers is [{linear: {out: 3}}] there and [{linear: {out: 4}}] here: ");
    const std::string another = other({"model.name=vit"}, {"model.name=resnet18"});
    EXPECT_TRUE(another.starts_with("model.name is vit there and resnet18 here, ")) << another;
    EXPECT_TRUE(another.ends_with(" other settings: ")) << another;
}

TEST_F(OtherModel, IsNotSaidOfWhatIsNotTheModel) {
    EXPECT_EQ(other({"optim.lr=0.5"}, {"model.init_from=a.h5", "model.init_except=[fc]"}), "");
    EXPECT_EQ(other({"model.freeze_except=[fc3]"}, {"model.freeze=[fc1]"}), "");
    EXPECT_EQ(other({"model.layers=[{linear: {out: 3, bias: true}}]"}, {"model.layers=[{linear: {out: 3}}]"}),
              "")
        << "written differently";
    EXPECT_EQ(other_model(temp_.path() + "/none.h5", {}), "");
    write_file(path_, "something else");
    EXPECT_EQ(other_model(path_, {}), "");
}

}  // namespace
}  // namespace tutti::test
