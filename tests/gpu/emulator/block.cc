/* block: fibers for a block's threads, which meet at barriers. Threads run in an order that chance gives anew at every barrier, and
 * blocks in one that it gives at every launch, so that what only works in one order fails. A block whose threads do not all reach
 * the same barrier, or a warp whose threads do not all reach the same shuffle, ends the program: on a GPU it would hang or compute
 * nonsense. */
#include "emulator.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <numeric>

enum { MOST_THREADS = 1024, STACK_BYTES = 128 << 10 };
enum fiber_state { RUNS, AT_BARRIER, AT_SHUFFLE, DONE };

struct emulator_place emulator_place;

/* A fiber is made once per thread number and then runs body after body. A switch keeps what a call must keep on the stack that it
 * leaves: swapcontext would enter the kernel, and setjmp takes three times as long. */
extern "C" void fiber_switch(void **ret_left, void *to);
asm(".text\n.type fiber_switch, @function\nfiber_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

/* What a thread shows the others of its warp. */
union exchanged {
    float number;
    const void *pointer;
    struct {
        uint32_t a[4], b[2];
    };
};

static struct {
    void *scheduler, *fiber[MOST_THREADS]; /* stack pointers of those that do not run */
    sigjmp_buf launch;
    char *stacks;
    bool made[MOST_THREADS], in_kernel[MOST_THREADS];
    enum fiber_state state[MOST_THREADS];
    bool waits[MOST_THREADS / 32]; /* warps that wait for the others at a barrier, or have ended */
    union exchanged exchange[2][MOST_THREADS];
    bool turn[MOST_THREADS]; /* which of the two rows a thread writes next */
    unsigned current, order[MOST_THREADS];
    const std::function<void()> *body;
} block;

void block_stacks(uintptr_t *ret_from, size_t *ret_bytes) {
    *ret_from = (uintptr_t)block.stacks;
    *ret_bytes = (size_t)MOST_THREADS * STACK_BYTES;
}

static void to_scheduler(enum fiber_state state) {
    block.state[block.current] = state;
    fiber_switch(&block.fiber[block.current], block.scheduler);
}

static void fiber_main(void) {
    for (;;) {
        (*block.body)();
        to_scheduler(DONE);
    }
}

static void to_fiber(unsigned t) {
    if (!block.made[t]) { /* as if fiber_main's first instruction had been left; stacks begin at different lines of the caches */
        void **top = (void **)(block.stacks + (size_t)(t + 1) * STACK_BYTES - t % 64 * 5 * 64);
        top[-2] = (void *)fiber_main;
        block.fiber[t] = top - 8;
        block.made[t] = true;
    }
    fiber_switch(&block.scheduler, block.fiber[t]);
}

void emulator_enter(void) { emulator_place.in_kernel = block.in_kernel[block.current] = true; }
void emulator_leave(void) { emulator_place.in_kernel = block.in_kernel[block.current] = false; }

/* Where this thread puts what its warp sees once all have met. */
static union exchanged *shown(void) { return &block.exchange[block.turn[block.current]][block.current]; }

/* Waits for the warp; returns what each thread of the block has shown. One meeting is enough: who goes on to the next shuffle
 * writes the other row, and this one only after that shuffle, when all have read it. */
static const union exchanged *meet(void) {
    bool turn = block.turn[block.current];
    block.turn[block.current] = !turn;
    to_scheduler(AT_SHUFFLE);
    return block.exchange[turn];
}

void __syncthreads(void) { to_scheduler(AT_BARRIER); }

float __shfl_xor_sync(unsigned, float v, int lane_mask) {
    unsigned at = block.current;
    shown()->number = v;
    return meet()[at ^ (unsigned)lane_mask].number;
}

unsigned __ballot_sync(unsigned, int predicate) {
    unsigned at = block.current, warp = at / 32 * 32, ballot = 0;
    shown()->number = predicate ? 1.0f : 0.0f;
    const union exchanged *all = meet();
    for (unsigned i = 0; i < 32 && warp + i < emulator_place.block_dim.x; i++)
        ballot |= (unsigned)(all[warp + i].number != 0.0f) << i;
    return ballot;
}

void emulator_share(const void *mine, const void *(&ret)[32]) {
    unsigned at = block.current, warp = at / 32 * 32;
    if ((uintptr_t)mine % 16)
        emulator_die("a row of a tile lies at %p; expected a multiple of 16 bytes", mine);
    shown()->pointer = mine;
    const union exchanged *all = meet();
    for (unsigned i = 0; i < 32; i++)
        ret[i] = all[warp + i].pointer;
}

/* Element `upper` of a register. */
static float element(uint32_t both, unsigned upper) { return __uint_as_float(upper ? both & 0xffff0000U : both << 16); }

/* The lanes that hold row r of A and column c of B: 4·r and 4·c, and the three after them (kernels/cuda/mma.cuh). */
void emulator_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    unsigned at = block.current, warp = at / 32 * 32, g = at % 32 / 4, t = at % 4;
    memcpy(shown()->a, a, sizeof a);
    memcpy(shown()->b, b, sizeof b);
    const union exchanged *all = meet();
    for (unsigned i = 0; i < 4; i++) {
        unsigned lower = i / 2, column = 2 * t + i % 2;
        for (unsigned k = 0; k < 16; k++) {
            unsigned lane = k % 8 / 2, half = k / 8;
            uint32_t left = all[warp + 4 * g + lane].a[2 * half + lower], right = all[warp + 4 * column + lane].b[half];
            d[i] += element(left, k % 2) * element(right, k % 2);
        }
    }
}

/* Threads from..to stand at the same place. */
static void must_be_together(unsigned from, unsigned to, unsigned threads) {
    for (unsigned t = from + 1; t < to && t < threads; t++)
        if (block.state[t] != block.state[from])
            emulator_die("threads %u and %u of block (%u,%u,%u) part: one %s, the other %s", from, t, emulator_place.block.x,
                         emulator_place.block.y, emulator_place.block.z, block.state[from] == DONE ? "has ended" : "waits",
                         block.state[t] == DONE ? "has ended" : "waits elsewhere");
}

/* All threads go on to where their warps meet next: at a shuffle, or, where all warps must meet, at a barrier or the end. Warps
 * that have come to a barrier wait there while others shuffle. */
static enum fiber_state run_to_meeting(unsigned threads) {
    unsigned at = (unsigned)emulator_chance(threads);
    for (unsigned i = 0; i < threads; i++, at = at + 1 < threads ? at + 1 : 0) {
        unsigned t = block.order[at];
        if (block.waits[t / 32])
            continue;
        block.current = t;
        emulator_place.thread = dim3(t, 0, 0);
        emulator_place.in_kernel = block.in_kernel[t];
        to_fiber(t);
    }
    bool shuffles = false;
    for (unsigned t = 0; t < threads; t += 32) {
        must_be_together(t, t + 32, threads);
        block.waits[t / 32] = block.state[t] != AT_SHUFFLE;
        shuffles = shuffles || block.state[t] == AT_SHUFFLE;
    }
    if (shuffles)
        return AT_SHUFFLE;
    must_be_together(0, threads, threads);
    memset(block.waits, 0, sizeof block.waits);
    return block.state[0];
}

static void run_one(unsigned threads) {
    checker_block();
    memset(block.turn, 0, threads);
    for (enum fiber_state met = RUNS; met != DONE;)
        if ((met = run_to_meeting(threads)) == AT_BARRIER)
            checker_barrier();
}

void block_fault(void) { siglongjmp(block.launch, 1); }

/* A kernel went where nothing is, or the host where only kernels may. Elsewhere the signal means what it always means. */
static void on_fault(int signum, siginfo_t *info, void *) {
    if ((uintptr_t)__builtin_frame_address(0) - (uintptr_t)block.stacks < (size_t)MOST_THREADS * STACK_BYTES)
        block_fault();
    if (memory_is_device(info->si_addr))
        emulator_die("the host touches device memory at %p; only copies and kernels may", info->si_addr);
    signal(signum, SIG_DFL);
}

static bool prepare(void) {
    block.stacks = (char *)mmap(NULL, (size_t)MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block.stacks == MAP_FAILED)
        emulator_die("no memory for stacks");
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_NODEFER | SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    return true;
}
[[maybe_unused]] static const bool prepared = prepare(); /* when the library is loaded */

/* BRR_EMULATED_FAULT: the number of the launch that goes wrong, from 1. */
static bool must_fail(void) {
    static const char *wanted = getenv("BRR_EMULATED_FAULT");
    static long launches;
    return wanted && ++launches == atol(wanted);
}

void block_run(const char *kernel, int device, dim3 grid, unsigned threads, const std::function<void()> &thread) {
    if (emulator_fault)
        return;
    if (must_fail()) {
        emulator_fault = cudaErrorIllegalAddress;
        return;
    }
    checker_kernel(kernel, device);
    block.body = &thread;
    emulator_place.grid = grid;
    emulator_place.block_dim = dim3(threads);
    std::iota(block.order, block.order + threads, 0U);
    for (unsigned i = threads - 1; i > 0; i--)
        std::swap(block.order[i], block.order[emulator_chance(i + 1)]);
    uint64_t plane = (uint64_t)grid.x * grid.y, blocks = plane * grid.z, from = emulator_chance(blocks),
             step = 1 + emulator_chance(blocks);
    while (std::gcd(step, blocks) != 1)
        step++;
    if (!sigsetjmp(block.launch, 1)) {
        for (uint64_t i = 0; i < blocks; i++) {
            uint64_t b = (from + i * step) % blocks;
            emulator_place.block = dim3((unsigned)(b % grid.x), (unsigned)(b % plane / grid.x), (unsigned)(b / plane));
            run_one(threads);
        }
    } else {
        emulator_fault = cudaErrorIllegalAddress;
        memset(block.made, 0, sizeof block.made);
        memset(block.in_kernel, 0, sizeof block.in_kernel);
        memset(block.waits, 0, sizeof block.waits);
    }
}
