# SPDX-License-Identifier: BSD-3-Clause
# How all pictures look: those of the programs, which have this file built in (picture.c), and those of pictures.py.
#
# A script sets these, then has the lines below, then for each graph `eval graph(...)` and `plot`:
#   file     the picture's name; .png is a PNG, anything else an SVG
#   heading  one line
#   origin   the small print: machine, version, date
#   names    the legend: words, in double quotes where they have spaces
#   styles   the line type of each of them: numbers
#   body     height of the graphs together, in pixels
# gnuplot stops at the first error. The picture goes to standard output, and who reads it there writes the file: gnuplot does
# not notice that a disk is full.

set encoding utf8
set micro
wide = 900.0 # as wide as a column of text, so that nothing is scaled down

# The legend: entries follow each other, row by row, each row in the middle; entry i begins at entry_x[i].
entries = words(names)
array entry_x[entries + 1]
array entry_row[entries + 1]
array row_px[entries + 1]
entry_px(i) = 56 + 7.2 * strlen(word(names, i))
rows = 0; px = wide
do for [i = 1:entries] {
	if (px + entry_px(i) > wide - 40) { rows = rows + 1; px = 0 }
	entry_x[i] = px; entry_row[i] = rows
	px = px + entry_px(i); row_px[rows] = px
}
head = 36.0 + 20 * rows
high = head + body + 26

if (strlen(file) > 4 && file[strlen(file) - 3:*] eq '.png') {
	set terminal pngcairo size wide,high font 'sans-serif,12' fontscale 0.82 background rgb 'white'
} else {
	set terminal svg size wide,high font 'sans-serif,12' background rgb 'white'
}

# The colours of Okabe and Ito, which those tell apart who see fewer colours; neighbours differ in lightness and marker, and the
# second seven are dashed and hollow.
array colours[7] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#000000', '#56B4E9']
array filled[7] = [7, 5, 9, 13, 11, 15, 3]
array hollow[7] = [6, 4, 8, 12, 10, 14, 1]
do for [i = 1:7] {
	set linetype i lc rgb colours[i] lw 2 dt solid pt filled[i] ps 0.6
	set linetype i + 7 lc rgb colours[i] lw 1.6 dt (7, 4) pt hollow[i] ps 0.7
}
set linetype 15 lc rgb '#777777' lw 1.6 dt (2, 3) pt 2 ps 0.6 # of what is no contestant
set linetype cycle 15

# The page: everything that is outside of the graphs is drawn by one that is as large and shows nothing.
set multiplot
set lmargin at screen 0; set rmargin at screen 1; set bmargin at screen 0; set tmargin at screen 1
unset border; unset tics
set xrange [0:wide]; set yrange [high:0]
set label 1 heading at wide / 2, 18 center noenhanced font ',14'
set label 2 origin at wide - 8, high - 9 right noenhanced font ',9' tc rgb '#555555'
do for [i = 1:entries] {
	entry_x[i] = entry_x[i] + (wide - row_px[entry_row[i]]) / 2
	set label i + 2 word(names, i) at entry_x[i] + 44, 26 + 20 * entry_row[i] left noenhanced
}
unset key
set samples 3
style(i) = int(word(styles, i))
if (entries > 0) {
	plot for [i = 1:entries] '+' using (entry_x[i] + 8 + 14 * $0):(26 + 20 * entry_row[i]) with linespoints lt style(i) pi 2 notitle
} else {
	plot -1 notitle
}
unset label
set autoscale

set border 3 lc rgb '#333333'
set grid lt 1 lw 0.6 lc rgb '#dddddd'
set xtics nomirror scale 0.6; set ytics nomirror scale 0.6
set title offset 0,-0.6 noenhanced font ',12'
set xlabel offset 0,0.4; set ylabel offset 0,0

# A graph in column `c` of `n`, between so many pixels from the top of the body; labels are outside of it.
graph(c, n, top, bottom) = sprintf('set lmargin at screen %.5f; set rmargin at screen %.5f; set tmargin at screen %.5f; set bmargin at screen %.5f', \
	(c * wide / n + 82) / wide, ((c + 1) * wide / n - 28) / wide, 1 - (head + top) / high, 1 - (head + bottom) / high)
# Its axis of bytes, with marks from the smallest size on, of which there is room for seven; without text where the graph
# below has the same.
size(b) = b < 1024 ? sprintf('%.0f B', b) : b < 1048576 ? sprintf('%.4g KiB', b / 1024) : b < 1073741824 ? sprintf('%.4g MiB', b / 1048576) : \
	sprintf('%.4g GiB', b / 1073741824)
marks(b, to, by, text) = sprintf('"%s" %.0f', text ? size(b) : '', b) . (b * by > to ? '' : ', ' . marks(b * by, to, by, text))
doublings(from, to) = log(to / from) / log(2)
bytes_axis(from, to, text) = sprintf('set logscale x 2; set xrange [%g:%g]; set xtics nomirror (', 0.85 * from, (to > from ? to : 2 * from) / 0.85) . \
	marks(from, to, 2.0 ** ceil((doublings(from, to) + 1) / 7), text) . ')'
bytes(from, to) = bytes_axis(from, to, 1)
bytes_below(from, to) = bytes_axis(from, to, 0)
# Its axis of times in seconds.
times = "set logscale y 10; set ytics nomirror autofreq; set format y '%.0s %cs'; set yrange [*:*]"
