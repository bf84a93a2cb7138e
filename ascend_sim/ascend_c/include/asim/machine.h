// Sizes of the machine, scalar functions, registers that a kernel sets by itself, and the tiling key.
#pragma once
#include "asim/gather.h"
#include "asim/launch.h"

namespace AscendC {

constexpr uint32_t GetDataBlockSizeInBytes() { return 32; }
constexpr uint32_t GetVecLen() { return 256; }
inline uint64_t GetUBSizeInBytes() { return asim::recorder.request.buffer_bytes[0]; }

inline int64_t ScalarCountLeadingZero(uint64_t value) { return value ? __builtin_clzll(value) : 64; }
inline int64_t CountBitsCntSameAsSignBit(int64_t value) { return __builtin_clrsbll(value); }
template <int wanted> inline int64_t ScalarGetCountOfValue(uint64_t value) { return __builtin_popcountll(wanted ? value : ~value); }
template <int wanted> inline int64_t ScalarGetSFFValue(uint64_t value) { return __builtin_ffsll(wanted ? value : ~value) - 1; }
template <class T, class U, RoundMode mode> inline U ScalarCast(T value) {
    double wide = (double)value, low = std::floor(wide), rest = wide - low;
    if constexpr (!std::is_integral_v<U>) return (U)value;
    else if (mode == RoundMode::CAST_FLOOR) return (U)low;
    else if (mode == RoundMode::CAST_CEIL) return (U)std::ceil(wide);
    else if (mode == RoundMode::CAST_ROUND) return (U)std::round(wide);
    else if (mode == RoundMode::CAST_RINT) return (U)(rest == 0.5 ? 2 * std::round(wide / 2) : std::round(wide));
    else return (U)std::trunc(wide);
}
template <class T, class U, RoundMode mode> inline U Cast(T value) { return ScalarCast<T, U, mode>(value); }
inline bfloat16_t Cast(const float &value) { return (bfloat16_t)value; }
inline float Cast(const bfloat16_t &value) { return (float)value; }
inline bfloat16_t ToBfloat16(const float &value) { return (bfloat16_t)value; }
inline float ToFloat(const bfloat16_t &value) { return (float)value; }

// A quotient is the sum of the dividend and the high half of its product with `magic`, shifted (derived: the use in public kernels).
template <class T> inline void GetUintDivMagicAndShift(T &magic, T &shift, T divisor, ASIM_SITE) {
    static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "GetUintDivMagicAndShift: uint32_t or uint64_t");
    if (!divisor) asim::refuse(site, "GetUintDivMagicAndShift: a division by 0");
    constexpr int BITS = 8 * sizeof(T);
    shift = 0;
    while (shift < BITS && (T)1 << shift < divisor) shift++;
    T rest = (shift < BITS ? (T)1 << shift : 0) - divisor;  // divided bit by bit: a wide division is a call of a library
    magic = 0;
    for (int bit = 0; bit < BITS; bit++) {
        bool over = rest >> (BITS - 1) || (T)(rest << 1) >= divisor;
        rest = (T)(rest << 1) - (over ? divisor : 0);
        magic = (T)(magic << 1 | over);
    }
    magic++;
}
template <class T> inline void SetPadValue(T value, ASIM_SITE) { asim::set_copy_padding(site, asim::bits(value)); }
inline void DisableDmaAtomic(ASIM_SITE) { asim::set_atomic_none(site); }
inline void InitSocState(ASIM_SITE) {
    asim::set_atomic_none(site);
    asim::set_counting(site, false);
    if (!asim::ON_CUBE) asim::set_vector_mask(site, -1, -1);
}
inline void Trap(ASIM_SITE) { asim::refuse(site, "the kernel called Trap()"); }
// Bit 48 of CTRL is the only one that these cores have here: 1 keeps infinities and NaN, which the option `overflow` of a
// launch decides for all values.
template <int8_t first, int8_t last> inline int64_t GetCtrlSpr() {
    static_assert(first == 48 && last == 48, "startBit and endBit must be both 48 on these cores");
    return (uint64_t)asim::recorder.registers.ctrl >> 48 & 1;
}
template <int8_t first, int8_t last> inline void SetCtrlSpr(int64_t value, ASIM_SITE) {
    static_assert(first == 48 && last == 48, "startBit and endBit must be both 48 on these cores");
    asim::Word::set_ctrl_(site, {.ctrl = (asim::recorder.registers.ctrl & ~(1ll << 48)) | (value & 1) << 48});
}
inline __gm__ uint8_t *GetUserWorkspace(GM_ADDR workspace) { return workspace; }
inline GM_ADDR asim_system_workspace = nullptr;
inline void SetSysWorkspace(GM_ADDR workspace) { asim_system_workspace = workspace; }
inline __gm__ uint8_t *GetSysWorkSpacePtr() { return asim_system_workspace; }

}  // namespace AscendC
// Public kernels write these names without their namespace, also where they write it before all others.
using AscendC::g_coreType, AscendC::GetSysWorkSpacePtr, AscendC::GetTPipePtr;

// The key is a macro of the command (--define TILING_KEY_VAR=2), as a build defines it for each variant.
#ifndef TILING_KEY_VAR
namespace asim {
inline int64_t no_tiling_key(Site site) {
    refuse(site, "TILING_KEY_IS: which key? Give --define TILING_KEY_VAR=NUMBER (defines= in Python)");
}
}  // namespace asim
#define TILING_KEY_VAR asim::no_tiling_key(asim::Site::here())
#endif
#define TILING_KEY_IS(key) ((TILING_KEY_VAR) == (key))
#define REGISTER_TILING_FOR_TILINGKEY(condition, Type)
#define GET_TILING_DATA_MEMBER(Type, member, name, pointer)                                                                 \
    decltype(Type::member) name;                                                                                            \
    memcpy((void *)&name, (const char *)(pointer) + offsetof(Type, member), sizeof name)
