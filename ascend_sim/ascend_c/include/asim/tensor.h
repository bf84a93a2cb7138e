// Tensors in GM and in the Unified Buffer: an address and a length, never memory.
#pragma once
#include "asim/marks.h"
#include "asim/types.h"

#define ASIM_SITE asim::Site site = asim::Site::here()

namespace asim {

// The shape that a kernel has noted at a tensor; a copy of the tensor has the same one.
class NotedShape {
public:
    void SetShapeInfo(const AscendC::ShapeInfo &shape) {
        noted_ = (AscendC::ShapeInfo *)malloc(sizeof shape);
        if (!noted_) abort();
        memcpy((void *)noted_, &shape, sizeof shape);
    }
    AscendC::ShapeInfo GetShapeInfo() const { return noted_ ? *noted_ : AscendC::ShapeInfo(); }

private:
    AscendC::ShapeInfo *noted_ = nullptr;
};
// An element by its address, read and written by the scalar unit.
template <class T> inline T scalar_load(Site site, decltype(Word::load_ub_) word, int64_t address) {
    if (ON_CUBE && word == Word::load_ub_) refuse(site, "GetValue of the Unified Buffer on a cube core; vector cores have it");
    word(site, {.src0 = address, .size = sizeof(T)});
    uint64_t bits = value_of_last_row(site);
    T value;
    memcpy((void *)&value, &bits, sizeof value);
    return value;
}
template <class T> inline void scalar_store(Site site, decltype(Word::store_ub_) word, int64_t address, T value) {
    int64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    word(site, {.dst = address, .src0 = bits, .size = sizeof(T)});
}
// Result of operator() of a tensor.
template <class T> class Element {
public:
    Element(Site site, int64_t address, bool in_gm) : site_(site), address_(address), in_gm_(in_gm) {}
    operator T() const { return scalar_load<T>(site_, in_gm_ ? Word::load_gm_ : Word::load_ub_, address_); }
    Element &operator=(T value) {
        scalar_store<T>(site_, in_gm_ ? Word::store_gm_ : Word::store_ub_, address_, value);
        return *this;
    }
    Element &operator=(const Element &other) { return *this = (T)other; }
    Element &operator+=(T value) { return *this = (T)((T)*this + value); }
    Element &operator-=(T value) { return *this = (T)((T)*this - value); }

private:
    Site site_;
    int64_t address_;
    bool in_gm_;
};

}  // namespace asim

namespace AscendC {

template <class T> class GlobalTensor : public asim::NotedShape {
public:
    using PrimType = T;
    void SetGlobalBuffer(T *buffer, uint64_t size) { start_ = buffer, size_ = size; }
    void SetGlobalBuffer(T *buffer) { start_ = buffer, size_ = 0; }
    T *GetPhyAddr() const { return start_; }
    T *GetPhyAddr(uint64_t offset) const { return start_ + offset; }
    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor piece = *this;
        piece.start_ += offset;
        return piece;
    }
    uint64_t GetSize() const { return size_; }
    template <CacheRwMode mode = CacheRwMode::RW> void SetL2CacheHint(CacheMode) const { asim::marked<asim::CACHE_HINTS>(); }
    T GetValue(uint64_t offset, ASIM_SITE) const { return asim::scalar_load<T>(site, asim::Word::load_gm_, (int64_t)(start_ + offset)); }
    void SetValue(uint64_t offset, T value, ASIM_SITE) const {
        asim::scalar_store<T>(site, asim::Word::store_gm_, (int64_t)(start_ + offset), value);
    }
    asim::Element<T> operator()(uint64_t offset, ASIM_SITE) const { return {site, (int64_t)(start_ + offset), true}; }

private:
    T *start_ = nullptr;
    uint64_t size_ = 0;
};

// Operands of z = x + y, which the assignment computes (operators.h), the second with the line.
template <class T, int operation> struct asim_pair_of;
template <class T> struct asim_located;
template <class T> class LocalTensor : public asim::NotedShape {
public:
    using PrimType = T;
    LocalTensor() = default;
    LocalTensor(const LocalTensor &) = default;
    LocalTensor &operator=(const LocalTensor &) = default;
    template <class S, int operation> LocalTensor &operator=(const asim_pair_of<S, operation> &pair) {
        pair.compute(*this);
        return *this;
    }
    LocalTensor(TPosition position, uint32_t address, uint32_t elements)
        : position_(position), address_(address), bytes_(elements * sizeof(T)) {}
    LocalTensor operator[](uint32_t offset) const {
        LocalTensor piece = *this;
        piece.address_ += offset * sizeof(T);
        piece.bytes_ -= offset * sizeof(T);
        return piece;
    }
    template <class U> LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(position_, address_, bytes_ / sizeof(U)).asim_within(begin_, end_);
    }
    uint32_t GetSize() const { return bytes_ / sizeof(T); }
    uint32_t GetLength() const { return bytes_; }
    void SetSize(uint32_t elements) { bytes_ = elements * sizeof(T); }
    TPosition GetPosition() const { return position_; }
    // An address in the simulated buffer; it is not memory of this process.
    uint64_t GetPhyAddr() const { return address_; }
    uint64_t GetPhyAddr(uint32_t offset) const { return at_index(offset); }
    T GetValue(uint32_t index, ASIM_SITE) const {
        check_scalar(site, "GetValue");
        return asim::scalar_load<T>(site, asim::Word::load_ub_, at_index(index));
    }
    template <class S> void SetValue(uint32_t index, S value, ASIM_SITE) const {
        check_scalar(site, "SetValue");
        asim::scalar_store<T>(site, asim::Word::store_ub_, at_index(index), (T)value);
    }
    asim::Element<T> operator()(uint32_t index, ASIM_SITE) const {
        check_scalar(site, "tensor(i)");
        return {site, at_index(index), false};
    }
    int64_t asim_address() const { return note_stray(address_); }
    // The buffer from which this tensor was made, whose other elements may be reached through it.
    LocalTensor asim_within(int64_t begin, int64_t end) const {
        LocalTensor piece = *this;
        piece.begin_ = begin, piece.end_ = end;
        return piece;
    }
#define ASIM_OPERATOR(SIGN, NUMBER)                                                                                         \
    friend asim_pair_of<T, NUMBER> operator SIGN(const LocalTensor &first, const asim_located<T> &second) {                 \
        return {first, second.tensor, second.site};                                                                        \
    }
    ASIM_OPERATOR(+, 0) ASIM_OPERATOR(-, 1) ASIM_OPERATOR(*, 2) ASIM_OPERATOR(/, 3) ASIM_OPERATOR(&, 4) ASIM_OPERATOR(|, 5)
    ASIM_OPERATOR(<, 6) ASIM_OPERATOR(>, 7) ASIM_OPERATOR(==, 8) ASIM_OPERATOR(<=, 9) ASIM_OPERATOR(>=, 10) ASIM_OPERATOR(!=, 11)
#undef ASIM_OPERATOR

private:
    void check_scalar(asim::Site site, const char *call) const {
        if (asim::hardware_of(position_) != Hardware::UB)
            asim::refuse(site, "%s of a tensor in %s; the scalar unit reaches GM and the Unified Buffer", call,
                         asim::name_of(asim::hardware_of(position_)));
    }
    int64_t at_index(uint32_t index) const { return note_stray(address_ + (int64_t)index * (int64_t)sizeof(T)); }
    int64_t note_stray(int64_t address) const {
        if (end_ && (address < begin_ || address >= end_)) asim::recorder.stray = (int)asim::hardware_of(position_);
        return address;
    }
    TPosition position_ = TPosition::VECCALC;
    uint32_t address_ = 0, bytes_ = 0, begin_ = 0, end_ = 0;
};
template <class T> struct asim_located {
    asim_located(const LocalTensor<T> &one, ASIM_SITE) : tensor(one), site(site) {}
    LocalTensor<T> tensor;
    asim::Site site;
};

}  // namespace AscendC

namespace asim {
template <class T> inline int64_t at(const AscendC::LocalTensor<T> &tensor) { return tensor.asim_address(); }
template <class T> inline int64_t at(const AscendC::GlobalTensor<T> &tensor) { return (int64_t)tensor.GetPhyAddr(); }
template <class T> inline AscendC::Hardware place_of(const AscendC::LocalTensor<T> &tensor) {
    return hardware_of(tensor.GetPosition());
}
}  // namespace asim
