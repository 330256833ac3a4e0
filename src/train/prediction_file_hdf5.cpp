#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "../input/hdf5_texts.hpp"
#include "hdf5_output.hpp"
#include "hdf5_tensors.hpp"
#include "prediction_writers.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/sha256.hpp"

namespace tutti {
namespace {

using store::Object;

constexpr const char* attribute_of_hash = "sha256";

hid_t type_of(DType dtype) {
    if (dtype == DType::i64) return H5T_STD_I64LE;
    return dtype == DType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
}

/// Rows [first, first + count) of a data set of one or two dimensions.
struct RowSelection {
    RowSelection(hid_t dataset, hsize_t first, hsize_t count) : file(H5Dget_space(dataset), H5Sclose) {
        std::array<hsize_t, 2> dims{1, 1};
        const int rank = H5Sget_simple_extent_ndims(file);
        if (rank < 1 || rank > 2) throw store::Failure("it has " + std::to_string(rank) + " dimensions");
        store::check(H5Sget_simple_extent_dims(file, dims.data(), nullptr));
        const std::array<hsize_t, 2> start{first, 0}, size{count, dims[1]};
        store::check(H5Sselect_hyperslab(file, H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr));
        const hsize_t elements = count * dims[1];
        memory = Object(H5Screate_simple(1, &elements, nullptr), H5Sclose);
    }
    Object file;
    Object memory{H5Screate(H5S_NULL), H5Sclose};
};

/// One data set that grows downwards.
class Column {
  public:
    Column(hid_t file, const char* name, DType dtype, std::int64_t rows, std::int64_t width)
        : dtype_(dtype), width_(width), dataset_(create(file, name, dtype, rows, width)) {}

    void append(std::span<const std::byte> bytes) {
        if (bytes.empty()) return;
        const std::size_t row = static_cast<std::size_t>(width_) * size_of(dtype_);
        const hsize_t count = bytes.size() / row;
        const RowSelection rows(dataset_, next_, count);
        store::check(H5Dwrite(dataset_, type_of(dtype_), rows.memory, rows.file, H5P_DEFAULT, bytes.data()));
        hash_.update(bytes);
        next_ += count;
    }
    hsize_t rows() const { return next_; }
    /// Once, at the end.
    void finish() { store::write_attribute(dataset_, attribute_of_hash, hash_.hex()); }

  private:
    static Object create(hid_t file, const char* name, DType dtype, std::int64_t rows, std::int64_t width) {
        const std::array<hsize_t, 2> dims{static_cast<hsize_t>(rows), static_cast<hsize_t>(width)};
        const Object space(H5Screate_simple(dtype == DType::i64 ? 1 : 2, dims.data(), nullptr), H5Sclose);
        const Object properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
        store::check(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER));
        store::check(H5Pset_obj_track_times(properties, false));  // the same predictions give the same file
        return {H5Dcreate2(file, name, type_of(dtype), space, H5P_DEFAULT, properties, H5P_DEFAULT),
                H5Dclose};
    }

    DType dtype_;
    std::int64_t width_;
    Object dataset_;
    hsize_t next_ = 0;
    Sha256 hash_;
};

/// Text of variable length; it grows downwards, too.
class TextColumn {
  public:
    TextColumn(hid_t file, const char* name, std::int64_t rows)
        : type_(hdf5::variable_text_type()), dataset_(create(file, name, type_.get(), rows)) {}

    void append(std::span<const std::string> texts) {
        for (; !texts.empty(); texts = texts.subspan(std::min(texts.size(), texts_at_once))) {
            std::vector<const char*> pointers;
            for (const std::string& text : texts.first(std::min(texts.size(), texts_at_once))) {
                pointers.push_back(text.c_str());
                update(hash_, text);
            }
            const RowSelection rows(dataset_, next_, pointers.size());
            store::check(
                H5Dwrite(dataset_, type_.get(), rows.memory, rows.file, H5P_DEFAULT, pointers.data()));
            next_ += pointers.size();
        }
    }
    /// Once, at the end.
    void finish() { store::write_attribute(dataset_, attribute_of_hash, hash_.hex()); }

    static constexpr std::size_t texts_at_once = 4096;
    static void update(Sha256& hash, const std::string& text) {
        hash.update(std::string_view(text.c_str(), text.size() + 1));
    }

  private:
    static Object create(hid_t file, const char* name, hid_t type, std::int64_t rows) {
        const auto dim = static_cast<hsize_t>(rows);
        const Object space(H5Screate_simple(1, &dim, nullptr), H5Sclose);
        const Object properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
        store::check(H5Pset_obj_track_times(properties, false));
        return {H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose};
    }

    hdf5::Handle type_;
    Object dataset_;
    hsize_t next_ = 0;
    Sha256 hash_;
};

/// prefix_0, prefix_1, …
void write_names(hid_t file, const std::string& prefix, const std::vector<std::string>& names) {
    for (std::size_t k = 0; k < names.size(); ++k)
        store::write_attribute(file, (prefix + std::to_string(k)).c_str(), names[k]);
}

class Hdf5PredictionWriter final : public PredictionWriter {
  public:
    Hdf5PredictionWriter(const std::string& path, const PredictionFormat& format,
                         const PredictionOrigin& origin)
        : path_(path), format_(format) {
        const hdf5::QuietErrors silent;
        guarded([&] {
            temporary_ = std::make_unique<file::Temporary>(path);
            file_ = std::make_unique<store::OutputFile>(temporary_->descriptor(), temporary_->name());
            const hid_t file = file_->id();
            store::write_attribute(file, predictions_version_name, predictions_version);
            store::write_attribute(file, "weights", origin.weights);
            store::write_attribute(file, "weights_sha256", origin.weights_sha256);
            store::write_attribute(file, "data", origin.data);
            store::write_attribute(file, "config", origin.config);
            if (format.outputs == 0) {
                labels_.emplace(file, "labels", DType::i64, format.samples, 1);
                predictions_.emplace(file, "predictions", DType::i64, format.samples, 1);
                write_names(file, "class_name_", format.class_names);
            } else {
                outputs_.emplace(file, "outputs", format.dtype, format.samples, format.outputs);
                write_names(file, "target_name_", format.target_names);
                write_names(file, "output_name_", format.output_names);
            }
            if (format.earth > 0) {
                earth_.emplace(file, "earth", DType::f64, format.samples, format.earth);
                write_names(file, "earth_name_",
                            {earth_columns.begin(), earth_columns.begin() + format.earth});
            }
            if (format.targets > 0)
                targets_.emplace(file, "targets", DType::f32, format.samples, format.targets);
            if (format.logits > 0)
                logits_.emplace(file, "logits", format.dtype, format.samples, format.logits);
            if (format.embedding > 0)
                embeddings_.emplace(file, "embeddings", format.dtype, format.samples, format.embedding);
            if (format.has_paths) paths_.emplace(file, "paths", format.samples);
        });
    }

    void append(const PredictionRows& rows) override {
        const hdf5::QuietErrors silent;
        guarded([&] {
            if (labels_) labels_->append(std::as_bytes(rows.labels));
            if (predictions_) predictions_->append(std::as_bytes(rows.predictions));
            if (outputs_) outputs_->append(rows.outputs);
            if (targets_) targets_->append(rows.targets);
            if (earth_) earth_->append(rows.earth);
            if (logits_) logits_->append(rows.logits);
            if (embeddings_) embeddings_->append(rows.embeddings);
            if (paths_) paths_->append(rows.paths);
            file_->check();
        });
    }

    void commit() override {
        assert((labels_ ? labels_ : outputs_)->rows() == static_cast<hsize_t>(format_.samples));
        const hdf5::QuietErrors silent;
        guarded([&] {
            for (auto* column :
                 {&labels_, &predictions_, &outputs_, &targets_, &earth_, &logits_, &embeddings_}) {
                if (*column) (*column)->finish();
                column->reset();
            }
            if (paths_) paths_->finish();
            paths_.reset();
            file_->close();
            temporary_->commit();
        });
    }

  private:
    template <class Action>
    void guarded(const Action& action) const {
        try {
            action();
        } catch (const store::Failure& failure) {
            throw_unwritable_predictions(path_, failure.what());
        } catch (const std::system_error& error) {
            throw_unwritable_predictions(path_, file::cause(error));
        }
    }

    const std::string path_;
    const PredictionFormat format_;
    std::unique_ptr<file::Temporary> temporary_;
    std::unique_ptr<store::OutputFile> file_;
    std::optional<Column> labels_, predictions_, outputs_, targets_, earth_, logits_, embeddings_;
    std::optional<TextColumn> paths_;
};

/// Calls visit with the bytes of the data set, a few rows at a time.
template <class Visit>
void read_rows(hid_t dataset, const PredictionColumn& column, const Visit& visit) {
    const std::int64_t rows = column.shape[0];
    if (rows == 0 || column.shape.count() == 0) return;
    if (H5Dget_storage_size(dataset) <
        static_cast<hsize_t>(column.shape.count()) * static_cast<hsize_t>(size_of(column.dtype)))
        throw store::Failure("its shape claims more data than the file holds");
    const auto row = static_cast<std::size_t>(column.shape.count() / rows) * size_of(column.dtype);
    const auto piece = static_cast<std::int64_t>(std::max<std::size_t>(store::piece_bytes / row, 1));
    std::vector<std::byte> bytes;
    for (std::int64_t first = 0; first < rows; first += piece) {
        const std::int64_t count = std::min(piece, rows - first);
        bytes.resize(static_cast<std::size_t>(count) * row);
        const RowSelection selection(dataset, static_cast<hsize_t>(first), static_cast<hsize_t>(count));
        store::check(H5Dread(dataset, type_of(column.dtype), selection.memory, selection.file, H5P_DEFAULT,
                             bytes.data()));
        visit(std::span<const std::byte>(bytes));
    }
}

void require_hash(hid_t dataset, const PredictionColumn& column) {
    std::string stored;
    store::read_attribute(dataset, attribute_of_hash, stored);
    if (stored != column.sha256)
        throw store::Failure("data set " + column.name + ": its SHA-256 does not match");
}

PredictionColumn read_text_column(hid_t file, const std::string& name) {
    const Object dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    const Object type(H5Dget_type(dataset), H5Tclose);
    PredictionColumn column{.name = name, .shape = store::shape_of(dataset), .sha256 = {}, .text = true};
    if (H5Tis_variable_str(type) <= 0 || column.shape.rank() != 1)
        throw store::Failure("data set " + name + " has an unexpected type");
    // In the file a text is more than a pointer.
    if (column.shape[0] > 0 &&
        H5Dget_storage_size(dataset) / sizeof(char*) < static_cast<hsize_t>(column.shape[0]))
        throw store::Failure("its shape claims more data than the file holds");
    Sha256 hash;
    constexpr auto most = static_cast<std::int64_t>(TextColumn::texts_at_once);
    for (std::int64_t first = 0; first < column.shape[0]; first += most) {
        const auto count = static_cast<hsize_t>(std::min(most, column.shape[0] - first));
        const RowSelection rows(dataset, static_cast<hsize_t>(first), count);
        hdf5::VariableTexts texts(type, rows.memory, count);
        store::check(H5Dread(dataset, texts.type(), rows.memory, rows.file, H5P_DEFAULT, texts.pointers()));
        for (const std::string& text : texts.copy()) TextColumn::update(hash, text);
    }
    column.sha256 = hash.hex();
    require_hash(dataset, column);
    return column;
}

PredictionColumn read_column(hid_t file, const std::string& name, std::vector<std::int64_t>* numbers) {
    const Object dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    const NamedTensor head = store::read_tensor(dataset, false);
    PredictionColumn column{.name = name, .dtype = head.dtype, .shape = head.shape, .sha256 = {}};
    Sha256 hash;
    read_rows(dataset, column, [&](std::span<const std::byte> bytes) {
        hash.update(bytes);
        if (!numbers || column.dtype != DType::i64) return;
        const auto* values = reinterpret_cast<const std::int64_t*>(bytes.data());
        numbers->insert(numbers->end(), values, values + bytes.size() / sizeof(std::int64_t));
    });
    column.sha256 = hash.hex();
    require_hash(dataset, column);
    return column;
}

}  // namespace

std::unique_ptr<PredictionWriter> make_hdf5_prediction_writer(const std::string& path,
                                                              const PredictionFormat& format,
                                                              const PredictionOrigin& origin) {
    return std::make_unique<Hdf5PredictionWriter>(path, format, origin);
}

bool is_hdf5_prediction_file(const std::string& path) {
    return store::has_attribute(path, predictions_version_name);
}

PredictionSummary read_prediction_summary(const std::string& path) {
    const hdf5::QuietErrors silent;
    const std::string remedy = "predict again";
    const Object file = store::open_file(path, remedy);
    try {
        std::int64_t version = 0;
        store::read_attribute(file, predictions_version_name, version);
        if (version != predictions_version)
            throw store::Failure("its format " + std::to_string(version) + " is not the one of this program");
        PredictionSummary summary;
        summary.origin = {store::read_long_text(file, "weights"),
                          store::read_long_text(file, "weights_sha256"), store::read_long_text(file, "data"),
                          store::read_long_text(file, "config")};
        std::vector<std::int64_t> labels, predictions;
        summary.regression = H5Lexists(file, "outputs", H5P_DEFAULT) > 0;
        if (!summary.regression) {
            summary.columns.push_back(read_column(file, "labels", &labels));
            summary.columns.push_back(read_column(file, "predictions", &predictions));
        }
        for (const char* name : {"outputs", "targets", "earth", "logits", "embeddings"})
            if (H5Lexists(file, name, H5P_DEFAULT) > 0)
                summary.columns.push_back(read_column(file, name, nullptr));
        if (H5Lexists(file, "paths", H5P_DEFAULT) > 0)
            summary.columns.push_back(read_text_column(file, "paths"));
        const Shape& first = summary.columns.front().shape;
        summary.samples = first.rank() > 0 ? first[0] : 0;
        summary.labelled = std::ranges::any_of(labels, [](std::int64_t label) { return label >= 0; });
        for (std::size_t i = 0; i < std::min(labels.size(), predictions.size()); ++i)
            summary.correct += labels[i] == predictions[i] && labels[i] >= 0 ? 1 : 0;
        Sha256 all;
        for (const PredictionColumn& column : summary.columns) {
            if (column.shape.rank() == 0 || column.shape[0] != summary.samples)
                throw store::Failure("data set " + column.name + " has another number of rows than " +
                                     summary.columns.front().name);
            all.update(column.name + " " + column.sha256 + "\n");
        }
        summary.sha256 = all.hex();
        return summary;
    } catch (const store::Failure& failure) {
        throw DataError(path + " holds no readable predictions: " + failure.what(), remedy);
    }
}

}  // namespace tutti
