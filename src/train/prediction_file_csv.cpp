#include <fmt/format.h>

#include <array>
#include <cassert>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "prediction_writers.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/csv_field.hpp"

namespace tutti {
namespace {

class CsvPredictionWriter final : public PredictionWriter {
  public:
    CsvPredictionWriter(const std::string& path, const PredictionFormat& format)
        : path_(path), format_(format) {
        guarded([&] { temporary_ = std::make_unique<file::Temporary>(path); });
        fmt::memory_buffer text;
        auto out = std::back_inserter(text);
        fmt::format_to(out, "index");
        if (format.has_paths) fmt::format_to(out, ",path");
        if (format.outputs == 0) fmt::format_to(out, ",label,prediction");
        names(text, "target", format.targets, format.target_names);
        names(text, "output", format.outputs, format.names_of_outputs());
        for (std::int64_t e = 0; e < format.earth; ++e)
            fmt::format_to(out, ",{}", earth_columns[static_cast<std::size_t>(e)]);
        for (std::int64_t k = 0; k < format.logits; ++k) fmt::format_to(out, ",logit_{}", k);
        for (std::int64_t e = 0; e < format.embedding; ++e) fmt::format_to(out, ",embedding_{}", e);
        text.push_back('\n');
        write(text);
    }

    void append(const PredictionRows& rows) override {
        fmt::memory_buffer text;
        auto out = std::back_inserter(text);
        for (std::size_t i = 0; i < rows.count; ++i) {
            fmt::format_to(out, "{}", next_++);
            if (format_.has_paths) fmt::format_to(out, ",{}", csv_field(rows.paths[i]));
            if (format_.outputs == 0) fmt::format_to(out, ",{},{}", rows.labels[i], rows.predictions[i]);
            values(text, DType::f32, rows.targets, i, format_.targets);
            values(text, format_.dtype, rows.outputs, i, format_.outputs);
            values(text, DType::f64, rows.earth, i, format_.earth);
            values(text, format_.dtype, rows.logits, i, format_.logits);
            values(text, format_.dtype, rows.embeddings, i, format_.embedding);
            text.push_back('\n');
        }
        write(text);
    }

    void commit() override {
        assert(next_ == format_.samples);
        guarded([&] { temporary_->commit(); });
    }

  private:
    static void names(fmt::memory_buffer& text, const char* what, std::int64_t columns,
                      const std::vector<std::string>& known) {
        for (std::int64_t k = 0; k < columns; ++k) {
            const std::string name = known.empty() ? std::to_string(k) : known[static_cast<std::size_t>(k)];
            fmt::format_to(std::back_inserter(text), ",{}", csv_field(fmt::format("{}_{}", what, name)));
        }
    }

    static void values(fmt::memory_buffer& text, DType dtype, std::span<const std::byte> all, std::size_t row,
                       std::int64_t columns) {
        const auto first = row * static_cast<std::size_t>(columns);
        for (std::size_t k = first; k < first + static_cast<std::size_t>(columns); ++k)
            if (dtype == DType::f64)
                fmt::format_to(std::back_inserter(text), ",{}",
                               reinterpret_cast<const double*>(all.data())[k]);
            else
                fmt::format_to(std::back_inserter(text), ",{}",
                               reinterpret_cast<const float*>(all.data())[k]);
    }

    void write(const fmt::memory_buffer& text) {
        guarded([&] { file::write_all(temporary_->descriptor(), {text.data(), text.size()}); });
    }

    template <class Action>
    void guarded(const Action& action) const {
        try {
            action();
        } catch (const std::system_error& error) {
            throw_unwritable_predictions(path_, file::cause(error));
        }
    }

    const std::string path_;
    const PredictionFormat format_;
    std::unique_ptr<file::Temporary> temporary_;
    std::int64_t next_ = 0;
};

}  // namespace

bool is_csv_prediction_file(const std::string& path) {
    std::ifstream file(path);
    std::array<char, 64> begin{};
    file.read(begin.data(), begin.size());
    std::string_view rest(begin.data(), static_cast<std::size_t>(file.gcount()));
    const auto take = [&](std::string_view text) {
        const bool there = rest.starts_with(text);
        if (there) rest.remove_prefix(text.size());
        return there;
    };
    if (!take("index,")) return false;
    take("path,");
    if (take("label,prediction")) return true;
    take("\"");  // around a name that needs it
    return take("target_") || take("output_");
}

std::unique_ptr<PredictionWriter> make_csv_prediction_writer(const std::string& path,
                                                             const PredictionFormat& format) {
    return std::make_unique<CsvPredictionWriter>(path, format);
}

}  // namespace tutti
