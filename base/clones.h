/* clones: CLONES before a static function with plain loops has it compiled for AVX-512, AVX2 and baseline, chosen at load time. The
 * build rounds products before they are added, so all clones give the same bits. */
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                           \
    !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((noinline, target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES __attribute__((noinline))
#endif
