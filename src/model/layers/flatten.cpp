#include "tutti/model/layers.hpp"

namespace tutti {
namespace {

class Flatten final : public Layer {
  public:
    using Layer::Layer;
    std::string kind() const override { return "flatten"; }
    bool is_view() const override { return true; }
    void forward(const LayerCall&) override {}
    void backward(const LayerCall&) override {}
};

}  // namespace

std::unique_ptr<Layer> make_flatten(const Shape& input) {
    return std::make_unique<Flatten>(Shape{input.count()});
}

}  // namespace tutti
