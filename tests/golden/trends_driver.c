/* trends_driver FILE: the trends of the float32 samples (n, 18) of a file, a line for each epoch, for comparison with NumPy. */
#include <stdio.h>
#include <stdlib.h>

#include "plot/trends.h"

int main(int argc, char **argv) {
    static float uv[TRENDS_EPOCH * TRENDS_CHANNELS];
    double values[TRENDS_COLUMNS];
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!f)
        return 2;
    for (int i = 0; i < TRENDS_COLUMNS; i++)
        printf("%s%s", trends_column(i), i + 1 < TRENDS_COLUMNS ? "\t" : "\n");
    while (fread(uv, sizeof uv, 1, f) == 1) {
        if (trends_epoch(uv, values, NULL))
            return 1;
        for (int i = 0; i < TRENDS_COLUMNS; i++)
            printf("%.17g%s", values[i], i + 1 < TRENDS_COLUMNS ? "\t" : "\n");
    }
    fclose(f);
    return 0;
}
