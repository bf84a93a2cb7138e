// Functions of every element: compositions of basic calls in float32, in pieces that the temporary space holds (assumed: the
// library's own steps are not known).
#pragma once
#include "asim/pipe.h"
#include "asim/vector.h"

namespace asim {

using Floats = AscendC::LocalTensor<float>;
constexpr int64_t LANES = 64;  // floats of a repeat

// Temporary space of a call: the caller's tensor, or the rest of the Unified Buffer that TPipe has not handed out.
struct Temporary {
    int64_t start, bytes;
    bool given;
};
inline Temporary temporary(const AscendC::LocalTensor<uint8_t> &tensor) { return {at(tensor), tensor.GetLength(), true}; }
inline Temporary temporary(Site site, const char *call) {
    if (!pool) refuse(site, "%s takes temporary space behind the buffers of a TPipe, and there is none; sharedTmpBuffer gives some", call);
    int64_t start = pool->used[(int)AscendC::Hardware::UB], bytes = start < AscendC::ASIM_SCRATCH ? AscendC::ASIM_SCRATCH - start : 0;
    allocated_for_library(site, start, bytes);
    return {start, bytes, false};
}
inline void check_temporary(Site site, const char *call, const Temporary &space, int64_t least) {
    if (space.bytes < least)
        refuse(site, "%s takes %lld bytes of temporary space; %s %lld", call, (long long)least,
               space.given ? "sharedTmpBuffer has" : "TPipe's buffers leave", (long long)space.bytes);
}
inline Floats floats(int64_t start, int64_t count) { return Floats(AscendC::TPosition::VECCALC, start, count); }

// Steps over the elements of a piece; each waits for the one before it.
struct Piece {
    static constexpr int MOST = 8;
    Site site;
    int32_t n;
    Floats x, y, result, t[MOST];
    void barrier() { AscendC::asim_barrier(site); }
#define ASIM_STEP2(name, Call) void name(const Floats &d, const Floats &a) { AscendC::Call(d, a, n, site), barrier(); }
#define ASIM_STEP3(name, Call) void name(const Floats &d, const Floats &a, const Floats &b) { AscendC::Call(d, a, b, n, site), barrier(); }
#define ASIM_STEPS(name, Call) void name(const Floats &d, const Floats &a, float v) { AscendC::Call(d, a, v, n, site), barrier(); }
    ASIM_STEP2(exp, Exp) ASIM_STEP2(ln, Ln) ASIM_STEP2(abs, Abs) ASIM_STEP2(sqrt, Sqrt)
    ASIM_STEP3(add, Add) ASIM_STEP3(sub, Sub) ASIM_STEP3(mul, Mul) ASIM_STEP3(div, Div)
    ASIM_STEPS(adds, Adds) ASIM_STEPS(muls, Muls) ASIM_STEPS(maxs, Maxs) ASIM_STEPS(mins, Mins)
#undef ASIM_STEP2
#undef ASIM_STEP3
#undef ASIM_STEPS
    void fill(const Floats &d, float v) { AscendC::Duplicate(d, v, n, site), barrier(); }
    void round(const Floats &d, const Floats &a, AscendC::RoundMode mode) {  // of numbers below 2^31
        AscendC::LocalTensor<int32_t> whole = d.ReinterpretCast<int32_t>();
        AscendC::Cast(whole, a, mode, n, site), barrier();
        AscendC::Cast(d, whole, AscendC::RoundMode::CAST_RINT, n, site), barrier();
    }
    // d = a where c compares with v so, else b; n is a multiple of 64, and d is neither a nor b.
    void choose(const Floats &d, const Floats &bits, const Floats &c, AscendC::CMPMODE mode, float v, const Floats &a, const Floats &b) {
        AscendC::LocalTensor<uint8_t> mask = bits.ReinterpretCast<uint8_t>();
        AscendC::CompareScalar(mask, c, v, mode, n, site), barrier();
        AscendC::Select(d, mask, a, b, AscendC::SELMODE::VSEL_TENSOR_TENSOR_MODE, n, site), barrier();
    }
    // A polynomial of z, highest coefficient first.
    template <int count> void polynomial(const Floats &d, const Floats &z, const float (&c)[count]) {
        muls(d, z, c[0]);
        for (int i = 1; i < count; i++) {
            adds(d, d, c[i]);
            if (i + 1 < count) mul(d, d, z);
        }
    }
};

// Run `body` over pieces of the elements. It has TEMPS temporary tensors, and writes `result` in its last step. With `whole` its
// pieces fill repeats, as comparisons need. Half is computed as float32.
template <int TEMPS, bool whole, class T, class Body>
inline void in_pieces(Site site, const char *call, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src,
                      const AscendC::LocalTensor<T> *other, const Temporary &space, int64_t count, const Body &body) {
    static_assert(std::is_same_v<T, half> || std::is_same_v<T, float>, "this function takes half and float on this architecture");
    constexpr bool narrow = std::is_same_v<T, half>, staged = narrow || whole;
    const int slots = TEMPS + (staged ? other ? 3 : 2 : 0);
    if (count < 1) refuse(site, "%s: %lld elements; at least 1 is needed", call, (long long)count);
    if (count > dst.GetSize() || count > src.GetSize() || (other && count > other->GetSize()))
        refuse(site, "%s: %lld elements of tensors that have %u and %u", call, (long long)count, dst.GetSize(),
               other && other->GetSize() < src.GetSize() ? other->GetSize() : src.GetSize());
    check_temporary(site, call, space, slots * LANES * 4);
    int64_t most = slots ? space.bytes / slots / (LANES * 4) * LANES : count;
    for (int64_t first = 0; first < count; first += most) {
        int64_t here = count - first < most ? count - first : most;
        Piece p = {site, (int32_t)here};
        for (int i = 0; i < slots; i++) {
            Floats one = floats(space.start + i * most * 4, most);
            if (i < TEMPS) p.t[i] = one;
            else if (i == TEMPS) p.result = one;
            else (i == TEMPS + 1 ? p.x : p.y) = one;
        }
        if constexpr (whole)
            if (here % LANES) {
                p.n = (here + LANES - 1) / LANES * LANES;
                p.fill(p.x, 0);
                if (other) p.fill(p.y, 0);
            }
        auto bring = [&](const Floats &to, const AscendC::LocalTensor<T> &from) {
            if constexpr (narrow) AscendC::Cast(to, from[first], AscendC::RoundMode::CAST_NONE, here, site);
            else AscendC::Adds(to, from[first], 0.0f, here, site);
            p.barrier();
        };
        if constexpr (staged) {
            bring(p.x, src);
            if (other) bring(p.y, *other);
        } else {
            p.x = src[first], p.result = dst[first];
            if (other) p.y = (*other)[first];
        }
        body(p);
        if constexpr (narrow) AscendC::Cast(dst[first], p.result, AscendC::RoundMode::CAST_RINT, here, site);
        else if constexpr (staged) AscendC::Adds(dst[first], p.result, 0.0f, here, site);
        if constexpr (staged) p.barrier();
    }
}

// -- the steps of each function on a piece (formulas: public documentation; the steps are assumed)

inline void sigmoid_of(Piece &p, const Floats &argument) {  // 1 / (1 + exp(-argument)) in t[0]; t[1] is used
    p.muls(p.t[0], argument, -1);
    p.exp(p.t[0], p.t[0]);
    p.adds(p.t[0], p.t[0], 1);
    p.fill(p.t[1], 1);
    p.div(p.t[0], p.t[1], p.t[0]);
}
inline void tanh_of(Piece &p, const Floats &d, const Floats &a, const Floats &t) {  // (e - 1) / (e + 1) with e = exp(2 a)
    constexpr float FLAT = 8.8f;  // tanh is 1 in float32 behind it
    p.mins(d, a, FLAT);
    p.maxs(d, d, -FLAT);
    p.muls(d, d, 2);
    p.exp(d, d);
    p.adds(t, d, 1);
    p.adds(d, d, -1);
    p.div(d, d, t);
}
inline void erf_of(Piece &p, const Floats &d, const Floats &a, const Floats &z, const Floats &low) {  // a fraction of ours
    constexpr float TOP[] = {-1.3696070560753562e-08f, 4.787519647678083e-06f, 0.0003829060268857863f, 0.0038375756616648537f,
                             0.054329735384381045f, 0.18464206636187389f, 1.1283791828675986f};
    constexpr float BOTTOM[] = {6.40766777471484e-05f, 0.0013094762665154505f, 0.015450315712461278f, 0.1138035701426259f,
                                0.49696832529926904f, 1.0f};
    p.mins(low, a, 4);
    p.maxs(low, low, -4);
    p.mul(z, low, low);
    p.polynomial(d, z, TOP);
    p.mul(d, d, low);
    p.polynomial(low, z, BOTTOM);
    p.div(d, d, low);
}
// sin(a + turn pi / 2): a minus multiples of pi in three parts, then a polynomial; odd multiples change the sign.
inline void sine_of(Piece &p, float turn) {
    constexpr float INVERSE = 0.31830988618379067f, PARTS[] = {3.140625f, 9.67502593994140625e-4f, 1.509957990978376e-7f};
    constexpr float TERMS[] = {-2.3843389871546493e-08f, 2.7521923403468014e-06f, -0.0001984077256655533f, 0.008333329949955781f,
                               -0.16666666568579247f, 0.9999999999193944f};
    Floats multiple = p.t[0], rest = p.t[1], z = p.t[2], sign = p.t[3];
    p.muls(multiple, p.x, INVERSE);
    if (turn) p.adds(multiple, multiple, 0.5f * turn);
    p.round(multiple, multiple, AscendC::RoundMode::CAST_RINT);
    p.muls(sign, multiple, 0.5f);
    p.round(sign, sign, AscendC::RoundMode::CAST_FLOOR);
    p.muls(sign, sign, 2);
    p.sub(sign, multiple, sign);  // 1 where odd
    p.muls(sign, sign, -2);
    p.adds(sign, sign, 1);
    if (turn) p.adds(multiple, multiple, -0.5f * turn);
    p.muls(z, multiple, PARTS[0]);
    p.sub(rest, p.x, z);
    for (int i = 1; i < 3; i++) {
        p.muls(z, multiple, PARTS[i]);
        p.sub(rest, rest, z);
    }
    p.mul(z, rest, rest);
    p.polynomial(multiple, z, TERMS);
    p.mul(multiple, multiple, rest);
    p.mul(p.result, multiple, sign);
}
// The next whole number in a direction; numbers from 2^23 on are whole.
inline void rounded(Piece &p, AscendC::RoundMode mode) {
    p.abs(p.t[0], p.x);
    p.round(p.t[1], p.x, mode);
    p.choose(p.result, p.t[2], p.t[0], AscendC::CMPMODE::LT, 8388608.0f, p.t[1], p.x);
}
// x to the power y: exp(y ln|x|), with the sign of odd powers; NaN for a negative x and a y that is not whole.
inline void power_of(Piece &p) {
    using AscendC::CMPMODE;
    Floats odd = p.t[0], value = p.t[1], bits = p.t[2], other = p.t[3], fraction = p.t[4];
    p.abs(value, p.x);
    p.ln(value, value);
    p.mul(value, value, p.y);
    p.exp(value, value);
    p.round(fraction, p.y, AscendC::RoundMode::CAST_FLOOR);
    p.muls(odd, fraction, 0.5f);
    p.round(odd, odd, AscendC::RoundMode::CAST_FLOOR);
    p.muls(odd, odd, -2);
    p.add(odd, odd, fraction);  // 1 for odd powers
    p.sub(fraction, p.y, fraction);
    p.muls(odd, odd, -2);
    p.adds(odd, odd, 1);
    p.mul(other, value, odd);
    p.fill(odd, __builtin_nanf(""));
    p.choose(fraction, bits, fraction, CMPMODE::EQ, 0, other, odd);
    p.choose(other, bits, p.x, CMPMODE::LT, 0, fraction, value);
    p.fill(odd, 1);
    p.choose(p.result, bits, p.y, CMPMODE::EQ, 0, odd, other);
}
inline void scaled_log(Piece &p, float scale) {
    p.ln(p.t[0], p.x);
    p.muls(p.result, p.t[0], scale);
}

}  // namespace asim

namespace AscendC {

// Functions of one tensor: with a count or of the whole source, with temporary space of the caller's or without.
#define ASIM_FUNCTION(Name, temps, whole, ...)                                                                              \
    template <class T, bool isReuseSource = false> inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,   \
            const LocalTensor<uint8_t> &sharedTmpBuffer, const uint32_t count, ASIM_SITE) {                                 \
        asim::in_pieces<temps, whole>(site, #Name, dst, src, (const LocalTensor<T> *)nullptr, asim::temporary(sharedTmpBuffer), count, \
                                      [](asim::Piece &p) { __VA_ARGS__; });                                                 \
    }                                                                                                                       \
    template <class T, bool isReuseSource = false>                                                                          \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t count, ASIM_SITE) {               \
        asim::in_pieces<temps, whole>(site, #Name, dst, src, (const LocalTensor<T> *)nullptr, asim::temporary(site, #Name), count, \
                                      [](asim::Piece &p) { __VA_ARGS__; });                                                 \
    }                                                                                                                       \
    template <class T, bool isReuseSource = false> inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,   \
            const LocalTensor<uint8_t> &sharedTmpBuffer, ASIM_SITE) {                                                       \
        Name<T, isReuseSource>(dst, src, sharedTmpBuffer, src.GetSize(), site);                                             \
    }                                                                                                                       \
    template <class T, bool isReuseSource = false>                                                                          \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, ASIM_SITE) {                                     \
        Name<T, isReuseSource>(dst, src, src.GetSize(), site);                                                              \
    }
ASIM_FUNCTION(Sigmoid, 2, false, asim::sigmoid_of(p, p.x); p.adds(p.result, p.t[0], 0))
ASIM_FUNCTION(Tanh, 2, false, asim::tanh_of(p, p.t[0], p.x, p.t[1]); p.adds(p.result, p.t[0], 0))
ASIM_FUNCTION(Erf, 3, false, asim::erf_of(p, p.t[0], p.x, p.t[1], p.t[2]); p.adds(p.result, p.t[0], 0))
ASIM_FUNCTION(Sin, 4, false, asim::sine_of(p, 0))
ASIM_FUNCTION(Cos, 4, false, asim::sine_of(p, 1))
ASIM_FUNCTION(Floor, 3, true, asim::rounded(p, RoundMode::CAST_FLOOR))
ASIM_FUNCTION(Ceil, 3, true, asim::rounded(p, RoundMode::CAST_CEIL))
ASIM_FUNCTION(Round, 3, true, asim::rounded(p, RoundMode::CAST_RINT))
ASIM_FUNCTION(Trunc, 3, true, asim::rounded(p, RoundMode::CAST_TRUNC))
ASIM_FUNCTION(Sign, 1, false, p.muls(p.t[0], p.x, 3e38f); p.muls(p.t[0], p.t[0], 3e38f); p.mins(p.t[0], p.t[0], 1);
              p.maxs(p.result, p.t[0], -1))
ASIM_FUNCTION(Log, 1, false, asim::scaled_log(p, 1))
ASIM_FUNCTION(Log2, 1, false, asim::scaled_log(p, 1.4426950408889634f))
ASIM_FUNCTION(Log10, 1, false, asim::scaled_log(p, 0.43429448190325182f))
ASIM_FUNCTION(Silu, 2, false, asim::sigmoid_of(p, p.x); p.mul(p.result, p.x, p.t[0]))
#undef ASIM_FUNCTION

// Gelu and its faster form have switches of their own; both do the same here.
#define ASIM_GELU(Name, temps, ...)                                                                                         \
    template <class T, bool highPrecision = false, bool highPerformance = false>                                            \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &sharedTmpBuffer,     \
                     const uint32_t count, ASIM_SITE) {                                                                     \
        asim::in_pieces<temps, false>(site, #Name, dst, src, (const LocalTensor<T> *)nullptr, asim::temporary(sharedTmpBuffer), count, \
                                      [](asim::Piece &p) { __VA_ARGS__; });                                                 \
    }                                                                                                                       \
    template <class T, bool highPrecision = false, bool highPerformance = false>                                            \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t count, ASIM_SITE) {               \
        asim::in_pieces<temps, false>(site, #Name, dst, src, (const LocalTensor<T> *)nullptr, asim::temporary(site, #Name), count, \
                                      [](asim::Piece &p) { __VA_ARGS__; });                                                 \
    }
// x / (1 + exp(-1.59576912 (x + 0.044715 x^3)))
ASIM_GELU(Gelu, 3, p.mul(p.t[2], p.x, p.x); p.mul(p.t[2], p.t[2], p.x); p.muls(p.t[2], p.t[2], 0.044715f);
          p.add(p.t[2], p.t[2], p.x); p.muls(p.t[2], p.t[2], 1.59576912f); asim::sigmoid_of(p, p.t[2]); p.mul(p.result, p.x, p.t[0]))
// x / (1 + exp(-1.702 x))
ASIM_GELU(FasterGelu, 3, p.muls(p.t[2], p.x, 1.702f); asim::sigmoid_of(p, p.t[2]); p.mul(p.result, p.x, p.t[0]))
#undef ASIM_GELU

template <class T, bool isReuseSource = false>
inline void Swish(const LocalTensor<T> &dst, const LocalTensor<T> &src, uint32_t count, const asim::given<T> scalar, ASIM_SITE) {
    asim::in_pieces<3, false>(site, "Swish", dst, src, (const LocalTensor<T> *)nullptr, asim::temporary(site, "Swish"), count,
                              [scalar](asim::Piece &p) {
                                  p.muls(p.t[2], p.x, (float)scalar);
                                  asim::sigmoid_of(p, p.t[2]);
                                  p.mul(p.result, p.x, p.t[0]);
                              });
}

// Powers: base and exponent are tensors, or one of them is a number.
template <class T> inline void asim_power(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &base,
                                          const LocalTensor<T> &exponent, const asim::Temporary &space, uint32_t count) {
    asim::in_pieces<5, true>(site, "Power", dst, base, &exponent, space, count, [](asim::Piece &p) { asim::power_of(p); });
}
template <class T> inline void asim_power(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &base, asim::given<T> exponent,
                                          const asim::Temporary &space, uint32_t count) {
    asim::in_pieces<6, true>(site, "Power", dst, base, (const LocalTensor<T> *)nullptr, space, count, [exponent](asim::Piece &p) {
        p.y = p.t[5];
        p.fill(p.y, (float)exponent);
        asim::power_of(p);
    });
}
template <class T> inline void asim_power(asim::Site site, const LocalTensor<T> &dst, asim::given<T> base, const LocalTensor<T> &exponent,
                                          const asim::Temporary &space, uint32_t count) {
    asim::in_pieces<6, true>(site, "Power", dst, exponent, (const LocalTensor<T> *)nullptr, space, count, [base](asim::Piece &p) {
        p.y = p.x, p.x = p.t[5];
        p.fill(p.x, (float)base);
        asim::power_of(p);
    });
}
#define ASIM_POWER(Base, Exponent, whole)                                                                                   \
    template <class T, bool isReuseSource = false> inline void Power(const LocalTensor<T> &dst, Base base, Exponent exponent, \
            const LocalTensor<uint8_t> &sharedTmpBuffer, uint32_t count, ASIM_SITE) {                                       \
        asim_power<T>(site, dst, base, exponent, asim::temporary(sharedTmpBuffer), count);                                  \
    }                                                                                                                       \
    template <class T, bool isReuseSource = false>                                                                          \
    inline void Power(const LocalTensor<T> &dst, Base base, Exponent exponent, uint32_t count, ASIM_SITE) {                 \
        asim_power<T>(site, dst, base, exponent, asim::temporary(site, "Power"), count);                                    \
    }                                                                                                                       \
    template <class T, bool isReuseSource = false> inline void Power(const LocalTensor<T> &dst, Base base, Exponent exponent, \
            const LocalTensor<uint8_t> &sharedTmpBuffer, ASIM_SITE) {                                                       \
        asim_power<T>(site, dst, base, exponent, asim::temporary(sharedTmpBuffer), whole.GetSize());                        \
    }                                                                                                                       \
    template <class T, bool isReuseSource = false>                                                                          \
    inline void Power(const LocalTensor<T> &dst, Base base, Exponent exponent, ASIM_SITE) {                                 \
        asim_power<T>(site, dst, base, exponent, asim::temporary(site, "Power"), whole.GetSize());                          \
    }
#define ASIM_TENSOR const LocalTensor<T> &
ASIM_POWER(ASIM_TENSOR, ASIM_TENSOR, base)
ASIM_POWER(ASIM_TENSOR, const asim::given<T> &, base)
ASIM_POWER(const asim::given<T> &, ASIM_TENSOR, exponent)
#undef ASIM_TENSOR
#undef ASIM_POWER

}  // namespace AscendC
