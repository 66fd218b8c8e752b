/* communicators: the part of NCCL that kernels/cuda/nccl.cu uses, between the threads of one process, each with a device of its
 * own. The backend opens libnccl.so.2, which in the tests' folder is a link to the emulator itself. A send and its receive are done
 * when both streams have come to them, as on GPUs; a communicator that does not block is in progress until all of its ranks are
 * there. What NCCL leaves to hang hangs here, too: the backend has to see to it. BRR_EMULATED_NCCL: the version that it says it is.
 */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

#include <deque>
#include <map>

#define NCCL extern "C" __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7, UINT8 = 1, MAGIC = (int)0xcafebeef };
struct id {
    char bytes[128];
};
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

/* A message from one rank to another. */
struct trade {
    const void *from;
    void *to;
    size_t out, in;
    bool is_sent, is_wanted;       /* the calls have been made */
    bool has_sender, has_receiver; /* their streams have come to it */
    bool dead;
    emulator_flag done;
};
typedef std::shared_ptr<struct trade> trade_ptr;
struct world {
    int size = 0, joined = 0;
    unsigned long devices = 0;
    std::map<std::pair<int, int>, std::deque<trade_ptr>> channels; /* by sender and receiver: those that one side has called for */
};
struct ncclComm {
    std::shared_ptr<struct world> world;
    int rank, device;
    std::vector<trade_ptr> trades; /* of the communicator so far */
};
struct call {
    ncclComm *comm;
    bool sends;
    void *data;
    size_t bytes;
    int peer;
    cudaStream_t stream;
};

typedef std::lock_guard<std::recursive_mutex> gate;
static std::map<uint64_t, std::shared_ptr<struct world>> worlds;
static uint64_t ids;
static thread_local std::vector<struct call> group;
static thread_local bool in_group;

NCCL const char *ncclGetErrorString(int code) {
    return code == INVALID_USAGE ? "invalid usage" : code == INVALID_ARGUMENT ? "invalid argument" : "another error";
}
NCCL int ncclGetVersion(int *ret) {
    const char *wanted = getenv("BRR_EMULATED_NCCL");
    return *ret = wanted ? atoi(wanted) : 22803, SUCCESS;
}
NCCL int ncclGetUniqueId(struct id *ret) {
    gate lock(emulator_gate);
    *ret = {};
    ids++;
    memcpy(ret->bytes, &ids, sizeof ids);
    return SUCCESS;
}

NCCL int ncclCommInitRankConfig(ncclComm **ret, int size, struct id id, int rank, const struct config *config) {
    gate lock(emulator_gate);
    uint64_t number;
    memcpy(&number, id.bytes, sizeof number);
    if (config->magic != (unsigned)MAGIC || config->version < 21400 || config->size < sizeof *config || config->blocking ||
        !number || number > ids || rank < 0 || rank >= size)
        return INVALID_ARGUMENT;
    std::shared_ptr<struct world> &world = worlds[number];
    if (!world)
        world = std::make_shared<struct world>();
    if ((world->size && world->size != size) || world->devices >> emulator_current() & 1)
        return INVALID_USAGE; /* a GPU has one rank */
    world->size = size;
    world->joined++;
    world->devices |= 1UL << emulator_current();
    *ret = new ncclComm{world, rank, emulator_current(), {}};
    return IN_PROGRESS;
}
NCCL int ncclCommGetAsyncError(ncclComm *comm, int *ret) {
    gate lock(emulator_gate);
    return *ret = comm->world->joined < comm->world->size ? IN_PROGRESS : SUCCESS, SUCCESS;
}
/* Calls that wait for other ranks return. */
NCCL int ncclCommAbort(ncclComm *comm) {
    gate lock(emulator_gate);
    for (const trade_ptr &t : comm->trades) {
        t->dead = true;
        emulator_raise(t->done);
    }
    delete comm;
    return SUCCESS;
}

/* The streams of both have come to it. */
static void perhaps_move(const trade_ptr &t) {
    if (!t->has_sender || !t->has_receiver || t->dead)
        return;
    if (t->out != t->in)
        emulator_die("a rank sends %zu bytes by NCCL, and its peer receives %zu", t->out, t->in);
    if (!memory_is_device(t->from) || !memory_is_device(t->to) || !memory_holds(t->from, t->out) || !memory_holds(t->to, t->in))
        emulator_die("NCCL is given memory that is not the device's");
    memmove(t->to, t->from, t->out);
    emulator_raise(t->done);
}

/* The first message of the channel that this side has not called for. */
static trade_ptr trade_of(const struct call &c) {
    int from = c.sends ? c.comm->rank : c.peer, to = c.sends ? c.peer : c.comm->rank;
    std::deque<trade_ptr> &channel = c.comm->world->channels[{from, to}];
    trade_ptr found;
    for (const trade_ptr &t : channel)
        if (!found && !(c.sends ? t->is_sent : t->is_wanted))
            found = t;
    if (!found)
        channel.push_back(found = std::make_shared<struct trade>());
    if (!found->done)
        found->done = emulator_flag_new();
    (c.sends ? found->is_sent : found->is_wanted) = true;
    (c.sends ? found->out : found->in) = c.bytes;
    if (c.sends)
        found->from = c.data;
    else
        found->to = c.data;
    if (found->is_sent && found->is_wanted)
        channel.pop_front();
    return found;
}

NCCL int ncclGroupStart(void) { return in_group = true, SUCCESS; }
/* The calls of a group, which are of one stream here, are under way together. */
NCCL int ncclGroupEnd(void) {
    gate lock(emulator_gate);
    std::vector<std::pair<trade_ptr, bool>> halves;
    std::vector<emulator_flag> flags;
    cudaStream_t stream = group.empty() ? NULL : group[0].stream;
    int code = SUCCESS;
    for (const struct call &c : group) {
        if (c.stream != stream || c.comm->device != emulator_current() || c.peer < 0 || c.peer >= c.comm->world->size)
            code = INVALID_USAGE;
        if (code)
            continue;
        halves.push_back({trade_of(c), c.sends});
        flags.push_back(halves.back().first->done);
        c.comm->trades.push_back(halves.back().first);
    }
    group.clear();
    in_group = false;
    if (code || halves.empty())
        return code;
    std::function<void()> arrive = [halves] {
        for (const auto &[t, sends] : halves) {
            (sends ? t->has_sender : t->has_receiver) = true;
            perhaps_move(t);
        }
    };
    return emulator_meet(stream, arrive, flags) == cudaSuccess ? SUCCESS : INVALID_USAGE;
}

static int add_call(const struct call &c, int type) {
    if (type != UINT8 || !c.bytes || !in_group)
        return INVALID_ARGUMENT;
    group.push_back(c);
    return SUCCESS;
}
NCCL int ncclSend(const void *data, size_t count, int type, int peer, ncclComm *comm, cudaStream_t stream) {
    return add_call({comm, true, (void *)data, count, peer, stream}, type);
}
NCCL int ncclRecv(void *data, size_t count, int type, int peer, ncclComm *comm, cudaStream_t stream) {
    return add_call({comm, false, data, count, peer, stream}, type);
}
