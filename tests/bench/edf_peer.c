/* edf_peer: an hour of EDF through EDFlib (Debian libedf-dev), for edf_compare.py. usage: edf_peer FILE RUNS
 * Prints one line per run: milliseconds of whole-channel reads, and of reads in blocks of one record, opening included, both to
 * physical values in doubles as the library gives them. */
#include <edflib.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Reads everything in pieces of `piece` samples (0 = whole channels); the last value read, or a negative number. */
static double read_all(const char *path, int piece, double **to) {
    static struct edf_hdr_struct header;
    if (edfopen_file_readonly(path, &header, EDFLIB_DO_NOT_READ_ANNOTATIONS))
        return -1;
    int whole = (int)header.signalparam[0].smp_in_file, block = piece ? piece : whole;
    for (int at = 0; at < whole; at += block)
        for (int s = 0; s < header.edfsignals; s++)
            if (edfread_physical_samples(header.handle, s, block, to[s] + at) != block)
                return -1;
    edfclose_file(header.handle);
    return to[0][whole - 1];
}

int main(int argc, char **argv) {
    static struct edf_hdr_struct header;
    if (argc != 3 || edfopen_file_readonly(argv[1], &header, EDFLIB_DO_NOT_READ_ANNOTATIONS)) {
        fprintf(stderr, "usage: edf_peer FILE RUNS; EDFlib must accept FILE\n");
        return 1;
    }
    double *to[EDFLIB_MAXSIGNALS] = {0};
    int per_record = header.signalparam[0].smp_in_datarecord;
    for (int s = 0; s < header.edfsignals; s++)
        if (!(to[s] = calloc((size_t)header.signalparam[s].smp_in_file, sizeof(double))))
            return 1;
    edfclose_file(header.handle);
    for (long run = strtol(argv[2], NULL, 10); run > 0; run--) {
        double start = now_ms(), a = read_all(argv[1], 0, to), middle = now_ms(), b = read_all(argv[1], per_record, to),
               end = now_ms();
        if (a != b)
            return 1;
        printf("%.4f %.4f\n", middle - start, end - middle);
    }
    return 0;
}
