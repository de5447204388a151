#include "lightmill/clusters/reduce/device_reductions.hpp"

#include "lightmill/base/error.hpp"
#include "lightmill/clusters/find/device_consumer_internal.hpp"
#include "lightmill/clusters/reduce/reduce_body.hpp"
#include "lightmill/cuda/device.hpp"

namespace lightmill::clusters {

namespace detail {

#ifdef LIGHTMILL_CUDA
const void* reduce_global();
#else
static const void* reduce_global() {
    return nullptr;
}
#endif

namespace {

void reduce_on_host(const cuda::Shape& shape, const ReduceParameters& p) {
    for (int frame = 0; frame < static_cast<int>(shape.blocks_y); ++frame) {
        for (int word = 0; word < static_cast<int>(shape.blocks_x) * k_reduce_threads; ++word) {
            reduce_word(p, frame, word);
        }
    }
}

}  // namespace
}  // namespace detail

class DeviceReductions::Consumer final : public detail::DeviceConsumer {
  public:
    Consumer(const frames::Shape& shape, const ReductionOptions& options) : shape_(shape), options_(options) {
        if (options.spectrum) check(*options.spectrum);
        if (options.pixel_spectrum) (void)PixelSpectrum({1, 1}, *options.pixel_spectrum);
    }

    void prepare(std::size_t band, const std::shared_ptr<cuda::Device>& device, cuda::Device::Queue queue,
                 const detail::BandPlan& plan) override {
        if (bands_.size() <= band) bands_.resize(band + 1);
        auto& b = bands_[band];
        b.device = device;
        b.queue = queue;
        b.mark = device->make_mark();
        b.plan = plan;
        const auto pixels = static_cast<std::size_t>(plan.pixels);
        const auto zeroed = [&]<class T>(cuda::DeviceMemory<T>& memory, std::size_t size) {
            memory = cuda::DeviceMemory<T>(device, size);
            device->zero(queue, memory.data(), size * sizeof(T));
        };
        if (options_.spectrum)
            zeroed(b.spectrum, static_cast<std::size_t>(options_.spectrum->spectrum_bins) + 2);
        if (options_.hit_map) zeroed(b.hits, pixels);
        if (options_.pixel_spectrum) {
            zeroed(b.pixel_spectra,
                   pixels * static_cast<std::size_t>(options_.pixel_spectrum->spectrum_bins));
            zeroed(b.outside, 1);
        }
    }

    void consume(std::size_t band, std::int32_t frames, const std::uint32_t* photons,
                 const std::int32_t* residuals) override {
        const auto& b = bands_[band];
        const auto bins = [](const std::optional<SpectrumOptions>& o) {
            return o ? detail::Bins{o->spectrum_min, o->spectrum_max, o->spectrum_bins} : detail::Bins{};
        };
        const auto words = static_cast<unsigned>(b.plan.map_words());
        b.device->launch(
            b.queue, cuda::Kernel<detail::ReduceParameters>{detail::reduce_global(), &detail::reduce_on_host},
            {.blocks_x = (words + detail::k_reduce_threads - 1) / detail::k_reduce_threads,
             .blocks_y = static_cast<unsigned>(frames),
             .threads_x = detail::k_reduce_threads},
            detail::ReduceParameters{.plan = b.plan,
                                     .photons = photons,
                                     .residuals = residuals,
                                     .bins = bins(options_.spectrum),
                                     .spectrum = b.spectrum.data(),
                                     .hits = b.hits.data(),
                                     .pixel_bins = bins(options_.pixel_spectrum),
                                     .pixel_spectra = b.pixel_spectra.data(),
                                     .outside = b.outside.data()});
    }

    [[nodiscard]] Spectrum spectrum() const {
        require(options_.spectrum.has_value(), "spectrum");
        Spectrum sum(*options_.spectrum);
        std::vector<std::uint64_t> all(sum.all().size(), 0);
        for (const auto& band : bands_) {
            const auto counts = fetch(band, band.spectrum.data(), all.size());
            for (std::size_t i = 0; i < all.size(); ++i) all[i] += counts[i];
        }
        sum.set_all(all);
        return sum;
    }
    [[nodiscard]] HitMap hit_map() const {
        require(options_.hit_map, "hit_map");
        HitMap map(shape_);
        add_bands(map.counts(), 1, [](const Band& band) { return band.hits.data(); });
        return map;
    }
    [[nodiscard]] PixelSpectrum pixel_spectrum() const {
        require(options_.pixel_spectrum.has_value(), "pixel_spectrum");
        PixelSpectrum spectra(shape_, *options_.pixel_spectrum);
        add_bands(spectra.counts(), static_cast<std::size_t>(options_.pixel_spectrum->spectrum_bins),
                  [](const Band& band) { return band.pixel_spectra.data(); });
        std::uint64_t outside = 0;
        for (const auto& band : bands_) outside += fetch(band, band.outside.data(), 1)[0];
        spectra.set_outside(outside);
        return spectra;
    }

  private:
    struct Band {
        std::shared_ptr<cuda::Device> device;
        cuda::Device::Queue queue;
        cuda::Device::Mark mark;
        detail::BandPlan plan{};
        cuda::DeviceMemory<unsigned long long> spectrum, outside;
        cuda::DeviceMemory<std::uint32_t> hits, pixel_spectra;
    };

    static void require(bool wanted, const char* what) {
        if (!wanted) throw Error(ErrorCode::state, "this reduction was not asked for", what);
    }
    template <class T>
    static std::vector<T> fetch(const Band& band, const T* memory, std::size_t count) {
        return cuda::download(*band.device, band.queue, band.mark, memory, count);
    }
    // A pixel's clusters are its own band's: the counts of the rows beyond are 0.
    template <class Data>
    void add_bands(std::span<std::uint32_t> to, std::size_t each, Data&& data) const {
        for (const auto& band : bands_) {
            const auto counts = fetch(band, data(band), static_cast<std::size_t>(band.plan.pixels) * each);
            const auto first = static_cast<std::size_t>(band.plan.first_row * shape_.columns) * each;
            for (std::size_t i = 0; i < counts.size(); ++i) to[first + i] += counts[i];
        }
    }

    frames::Shape shape_;
    ReductionOptions options_;
    std::vector<Band> bands_;
};

DeviceReductions::DeviceReductions(Finder& finder, const frames::Shape& shape,
                                   const ReductionOptions& options)
    : consumer_(std::make_shared<Consumer>(shape, options)) {
    finder.attach(consumer_);
}
DeviceReductions::DeviceReductions(DeviceReductions&&) noexcept = default;
DeviceReductions& DeviceReductions::operator=(DeviceReductions&&) noexcept = default;
DeviceReductions::~DeviceReductions() = default;

Spectrum DeviceReductions::spectrum() const {
    return consumer_->spectrum();
}
HitMap DeviceReductions::hit_map() const {
    return consumer_->hit_map();
}
PixelSpectrum DeviceReductions::pixel_spectrum() const {
    return consumer_->pixel_spectrum();
}

}  // namespace lightmill::clusters
