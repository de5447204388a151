// A matrix product in three versions, the ladder of docs/ladder.md's guide. Every version adds the products
// of an element in the same order, so all three give the same bits.

#include <algorithm>
#include <array>

#include "lightmill/base/buffer.hpp"
#include "lightmill/base/error.hpp"
#include "lightmill/subjects/subjects.hpp"

namespace lightmill::subjects {
namespace {

using ladder::Fact;

struct Work {
    std::int64_t size = 256;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Work>
void visit_options(O& options, Visitor&& visit) {
    visit(
        OptionInfo{
            .name = "size", .help = "rows and columns of both matrices", .minimum = 1, .maximum = 4096},
        options.size);
}

enum class Version { dot, rows, blocked };
constexpr std::array<std::string_view, 3> k_versions{"dot", "rows", "blocked"};
std::span<const std::string_view> names(Version) {
    return k_versions;
}

struct Options {
    Version version = Version::dot;
    std::int64_t block = 64;
};
template <class O, class Visitor>
    requires std::is_same_v<std::remove_const_t<O>, Options>
void visit_options(O& options, Visitor&& visit) {
    visit(
        OptionInfo{
            .name = "version",
            .help = "dot: a row times a column; rows: whole rows are added; blocked: the same in blocks"},
        options.version);
    visit(
        OptionInfo{
            .name = "block", .help = "side of a block", .unit = "elements", .minimum = 1, .maximum = 4096},
        options.block);
}

template <class O>
O parse(const ladder::Settings& settings) {
    O options;
    ladder::apply(options, settings);
    return options;
}

class Product final : public ladder::Subject {
  public:
    Product(const Work& work, const Options& options)
        : n_(static_cast<std::size_t>(work.size)), options_(options), a_(n_ * n_), b_(n_ * n_), c_(n_ * n_) {
        std::uint64_t state = 1;
        auto next = [&] {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            return static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
        };
        for (std::size_t i = 0; i < a_.size(); ++i) a_[i] = next();
        for (std::size_t i = 0; i < b_.size(); ++i) b_[i] = next();
    }
    void poison() override { std::fill_n(c_.data(), c_.size(), std::numeric_limits<double>::quiet_NaN()); }
    ladder::Outcome run() override {
        if (options_.version == Version::dot) {
            for (std::size_t i = 0; i < n_; ++i) {
                for (std::size_t j = 0; j < n_; ++j) {
                    double sum = 0;
                    for (std::size_t k = 0; k < n_; ++k) sum += a_[i * n_ + k] * b_[k * n_ + j];
                    c_[i * n_ + j] = sum;
                }
            }
        } else {
            const std::size_t block =
                options_.version == Version::rows ? n_ : static_cast<std::size_t>(options_.block);
            std::fill_n(c_.data(), c_.size(), 0.0);
            for (std::size_t k0 = 0; k0 < n_; k0 += block)
                for (std::size_t j0 = 0; j0 < n_; j0 += block)
                    for (std::size_t i = 0; i < n_; ++i)
                        add(i, k0, std::min(k0 + block, n_), j0, std::min(j0 + block, n_));
        }
        return {1, c_.size()};
    }
    ladder::Answer output() override {
        return {ladder::array_of<double>("product", std::span<const double>(c_.span()))};
    }

  private:
    void add(std::size_t i, std::size_t k0, std::size_t k1, std::size_t j0, std::size_t j1) {
        double* c = c_.data() + i * n_;
        for (std::size_t k = k0; k < k1; ++k) {
            const double a = a_[i * n_ + k];
            const double* b = b_.data() + k * n_;
            for (std::size_t j = j0; j < j1; ++j) c[j] += a * b[j];
        }
    }
    std::size_t n_;
    Options options_;
    Buffer<double> a_, b_, c_;
};

class Type final : public ladder::SubjectType {
  public:
    std::string_view name() const noexcept override { return "matrix"; }
    std::string_view help() const noexcept override { return "a matrix product in three versions"; }
    std::vector<Fact> work(const ladder::Settings& settings) const override {
        return ladder::facts_of(parse<Work>(settings));
    }
    std::vector<Fact> configuration(const ladder::Settings&,
                                    const ladder::Settings& settings) const override {
        return ladder::facts_of(parse<Options>(settings));
    }
    std::optional<ladder::Settings> scalar(const ladder::Settings&, const ladder::Settings&) const override {
        return ladder::Settings{{"version", std::string("dot"), 0}};
    }
    std::vector<ladder::Load> loads(const ladder::Settings& work, const ladder::Settings&) const override {
        const auto n = static_cast<double>(parse<Work>(work).size);
        return {{"fma_f64", 2 * n * n * n}};
    }
    std::unique_ptr<ladder::Subject> build(const ladder::BuildInput& input) const override {
        return std::make_unique<Product>(parse<Work>(input.work), parse<Options>(input.configuration));
    }
};

}  // namespace

const ladder::SubjectType& matrix() {
    static const Type type;
    return type;
}

}  // namespace lightmill::subjects
