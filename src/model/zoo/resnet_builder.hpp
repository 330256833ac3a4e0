#pragma once
// Puts a residual network together layer by layer, for those that end it in different ways.

#include <memory>
#include <string>

#include "tutti/model/graph.hpp"

namespace tutti {

class ResnetBuilder {
  public:
    /// prefix: of all names.
    explicit ResnetBuilder(const Shape& input, std::string prefix = "");

    /// Everything up to the last block of resnet18, resnet34 or resnet50 (build_resnet). Another name:
    /// UsageError.
    void trunk(const std::string& name, const std::string& stem);
    /// A layer behind the last one; `name` without the prefix.
    void append(const std::string& name, std::unique_ptr<Layer> layer);

    NodeId last() const { return last_; }
    GraphSpec& graph() { return graph_; }

  private:
    void convolution(const std::string& name, std::int64_t out, std::int64_t kernel, std::int64_t stride);
    void norm(const std::string& name);
    void relu(const std::string& name);
    void max_pool(const std::string& name);
    /// BasicBlock, or Bottleneck: to 4 · width channels.
    void block(const std::string& name, std::int64_t width, std::int64_t stride, bool bottleneck);
    void add(const std::string& name, std::unique_ptr<Layer> layer);

    std::string prefix_;
    GraphSpec graph_;
    NodeId last_;
};

}  // namespace tutti
