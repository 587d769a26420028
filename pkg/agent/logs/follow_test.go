// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// scriptedWriter writes a log and rotates it in the ways that the programs on a
// host do. It remembers everything that it wrote.
type scriptedWriter struct {
	t    *testing.T
	rand *rand.Rand
	dir  string
	base string
	f    *os.File
	// all is the text of all files, in order.
	all bytes.Buffer
	// lines counts the lines, stamps the rotations.
	lines, stamps int
	midLine       bool
	// between, when set, is called when a copy was made of what is still there.
	between func()
	// concurrent: it runs in a goroutine of its own, where t.Fatal may not be used.
	concurrent bool
}

func newScriptedWriter(t *testing.T, r *rand.Rand, dir string) *scriptedWriter {
	t.Helper()
	w := &scriptedWriter{t: t, rand: r, dir: dir, base: "x.log"}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *scriptedWriter) path(name string) string { return filepath.Join(w.dir, name) }

func (w *scriptedWriter) check(err error) {
	w.t.Helper()
	switch {
	case err == nil:
	case w.concurrent:
		w.t.Error(err)
		runtime.Goexit()
	default:
		w.t.Fatal(err)
	}
}

func (w *scriptedWriter) open() {
	w.t.Helper()
	f, err := os.OpenFile(w.path(w.base), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.check(err)
	w.f = f
}

func (w *scriptedWriter) close() {
	if w.f != nil {
		w.check(w.f.Close())
		w.f = nil
	}
}

// write appends some lines, now and then only a part of one, or its rest.
func (w *scriptedWriter) write() {
	var b strings.Builder
	if w.midLine {
		// Texts are told apart by what they begin with, so it must differ.
		fmt.Fprintf(&b, "rest of %06d\n", w.lines)
		w.midLine = false
	}
	for range w.rand.IntN(4) {
		w.lines++
		fmt.Fprintf(&b, "line %06d %s\n", w.lines, strings.Repeat("x", w.rand.IntN(60)))
	}
	if w.rand.IntN(4) == 0 {
		w.lines++
		fmt.Fprintf(&b, "line %06d partial ", w.lines)
		w.midLine = true
	}
	w.append(b.String())
}

func (w *scriptedWriter) append(text string) {
	_, err := w.f.WriteString(text)
	w.check(err)
	w.all.WriteString(text)
}

// finishLine ends a partial line. A file that is cut off cannot be continued.
func (w *scriptedWriter) finishLine() {
	if w.midLine {
		w.append(fmt.Sprintf("rest of %06d\n", w.lines))
		w.midLine = false
	}
}

func (w *scriptedWriter) stamp() string {
	w.stamps++
	return time.Date(2026, 3, 5, 0, 0, w.stamps, 0, time.UTC).Format("20060102-150405")
}

// rename rotates like kube-log-runner: at any byte, to a name with a time.
func (w *scriptedWriter) rename() {
	w.close()
	w.check(os.Rename(w.path(w.base), w.path("x-"+w.stamp()+".log")))
	w.open()
}

// renameKeep begins to rotate like logrotate with its create option: the program
// goes on writing to the renamed file until it is told to reopen.
func (w *scriptedWriter) renameKeep() {
	w.check(os.Rename(w.path(w.base), w.path("x-"+w.stamp()+".log")))
	w.check(os.WriteFile(w.path(w.base), nil, 0o600))
}

func (w *scriptedWriter) reopen() {
	w.close()
	w.open()
}

// renameLate is all of it.
func (w *scriptedWriter) renameLate() {
	w.renameKeep()
	w.write()
	w.reopen()
}

// shift rotates like logrotate: x.log.1 becomes x.log.2 and so on.
func (w *scriptedWriter) shift() {
	w.close()
	for n := 50; n > 0; n-- {
		for _, gz := range []string{"", ".gz"} {
			from := w.path(fmt.Sprintf("x.log.%d%s", n, gz))
			if _, err := os.Stat(from); err == nil {
				w.check(os.Rename(from, w.path(fmt.Sprintf("x.log.%d%s", n+1, gz))))
			}
		}
	}
	w.check(os.Rename(w.path(w.base), w.path("x.log.1")))
	w.open()
}

// copyTruncate rotates like our own agent, and logrotate with its option of that name.
func (w *scriptedWriter) copyTruncate() {
	text, err := os.ReadFile(w.path(w.base))
	w.check(err)
	w.check(os.WriteFile(w.path("copy"), text, 0o600))
	w.check(os.Rename(w.path("copy"), w.path("x-"+w.stamp()+".log")))
	if w.between != nil {
		w.between()
	}
	w.check(w.f.Truncate(0))
}

// compress compresses the youngest rotated file that is not yet.
func (w *scriptedWriter) compress() {
	names := w.rotated()
	for _, name := range slices.Backward(names) {
		if strings.HasSuffix(name, ".gz") {
			continue
		}
		text, err := os.ReadFile(name)
		w.check(err)
		w.check(os.WriteFile(name+".gz", []byte(gzipped(w.t, string(text))), 0o600))
		w.check(os.Remove(name))
		return
	}
}

// recreate deletes the file and begins a new one.
func (w *scriptedWriter) recreate() {
	w.close()
	w.check(os.Remove(w.path(w.base)))
	w.open()
}

// truncate empties the file.
func (w *scriptedWriter) truncate() { w.check(w.f.Truncate(0)) }

// removeRotated deletes all rotated files.
func (w *scriptedWriter) removeRotated() {
	for _, name := range w.rotated() {
		w.check(os.Remove(name))
	}
}

func (w *scriptedWriter) rotated() []string {
	names, err := filepath.Glob(w.path("x*"))
	w.check(err)
	return slices.DeleteFunc(names, func(name string) bool { return filepath.Base(name) == w.base })
}

// empty says whether the present file is empty: a cursor has nothing to know it by.
func (w *scriptedWriter) empty() bool {
	info, err := os.Stat(w.path(w.base))
	w.check(err)
	return info.Size() == 0
}

// scriptedReader follows the log, now and then by way of a cursor.
type scriptedReader struct {
	t     *testing.T
	o     *opener
	q     query
	src   *fileSource
	grain grain
	got   bytes.Buffer
}

func newScriptedReader(t *testing.T, dir string, g grain) *scriptedReader {
	t.Helper()
	p := &plan{LogRequest: &api.LogRequest{Follow: true, EmitCursor: true}, grain: g}
	r := &scriptedReader{
		t: t, grain: g, q: query{kind: serviceQuery, text: "x", name: "x"},
		o: &opener{host: &testHost{root: dir}, plan: p, root: logRoot{dir}},
	}
	r.start(nil)
	t.Cleanup(func() { r.src.close() })
	return r
}

func (r *scriptedReader) start(from *resume) {
	r.t.Helper()
	src, err := r.o.openService(r.t.Context(), r.q, from)
	if err != nil {
		r.t.Fatalf("opening: %v", err)
	}
	if gap := src.gap(); gap != "" {
		r.t.Fatalf("gap: %s", gap)
	}
	r.src = src.(*fileSource)
}

// drain takes what is there.
func (r *scriptedReader) drain() {
	r.t.Helper()
	for {
		u, err := r.src.next(r.t.Context())
		if err != nil {
			r.t.Fatalf("reading: %v", err)
		}
		if u == nil {
			return
		}
		r.got.Write(u.text)
		if !u.raw {
			r.got.WriteByte('\n')
		}
	}
}

// some takes at most one unit.
func (r *scriptedReader) some() {
	r.t.Helper()
	u, err := r.src.next(r.t.Context())
	if err != nil {
		r.t.Fatalf("reading: %v", err)
	}
	if u != nil {
		r.got.Write(u.text)
		if !u.raw {
			r.got.WriteByte('\n')
		}
	}
}

// pause ends and returns a cursor, after a look at the files as Serve does.
func (r *scriptedReader) pause() *resume {
	r.t.Helper()
	r.some()
	from := r.src.resumeAt(r.src.position())
	r.src.close()
	from.Query = r.q.text
	text := cursor{Version: cursorVersion, Sources: []resume{from}}.encode()
	back, refused := decodeCursor(text, []query{r.q})
	if refused != nil {
		r.t.Fatal(refused)
	}
	return &back[0]
}

func compareLogs(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	from := max(0, i-60)
	t.Fatalf("differs at byte %d of %d (got %d):\nwant …%q\ngot  …%q", i, len(want), len(got),
		want[from:min(len(want), i+60)], got[from:min(len(got), i+60)])
}

// TestFollowScripted interleaves random writes, rotations of every kind, polls and
// resumptions from cursors. What comes out must be exactly what was written.
func TestFollowScripted(t *testing.T) {
	type op struct {
		name string
		// drained: the operation destroys text, which must have been read.
		// between: it destroys a partial line, too.
		drained bool
		do      func(*scriptedWriter)
	}
	write := op{name: "write", do: (*scriptedWriter).write}
	styles := []struct {
		name string
		ops  []op
	}{
		{name: "kube-log-runner", ops: []op{
			write, write, {name: "rename", do: (*scriptedWriter).rename},
			{name: "remove rotated", drained: true, do: (*scriptedWriter).removeRotated},
		}},
		{name: "lumberjack", ops: []op{
			write, write, {name: "rename", do: (*scriptedWriter).rename},
			{name: "compress", do: (*scriptedWriter).compress},
			{name: "recreate", drained: true, do: (*scriptedWriter).recreate},
		}},
		{name: "logrotate", ops: []op{
			write, write, {name: "shift", do: (*scriptedWriter).shift},
			{name: "compress", do: (*scriptedWriter).compress},
		}},
		{name: "logrotate create", ops: []op{
			write, write,
			{name: "rename", do: (*scriptedWriter).renameKeep},
			{name: "reopen", do: (*scriptedWriter).reopen},
			{name: "rename late", do: (*scriptedWriter).renameLate},
		}},
		{name: "copied and truncated", ops: []op{
			write, write, {name: "copytruncate", do: func(w *scriptedWriter) { w.finishLine(); w.copyTruncate() }},
		}},
		{name: "recreate", ops: []op{
			write, write,
			{name: "recreate", drained: true, do: (*scriptedWriter).recreate},
			{name: "truncate", drained: true, do: (*scriptedWriter).truncate},
		}},
	}
	for _, style := range styles {
		for _, g := range []grain{byBlock, byLine} {
			t.Run(fmt.Sprintf("%s/%d", style.name, g), func(t *testing.T) {
				for seed := range uint64(20) {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						rnd := rand.New(rand.NewPCG(seed, 1))
						dir := t.TempDir()
						w := newScriptedWriter(t, rnd, dir)
						r := newScriptedReader(t, dir, g)
						var paused *resume
						w.between = func() {
							if paused != nil {
								return
							}
							if rnd.IntN(2) == 0 {
								r.some()
							} else {
								r.drain()
							}
						}
						for range 80 {
							op := style.ops[rnd.IntN(len(style.ops))]
							if op.drained && paused == nil {
								w.finishLine()
								r.drain()
							}
							if !op.drained || paused == nil {
								op.do(w)
								// Something must come after, or the reader has
								// nothing to tell the new file from the old by.
								if op.drained {
									w.append(fmt.Sprintf("after %s %d\n", op.name, rnd.Uint64()))
									r.drain()
								}
							}
							switch n := rnd.IntN(10); {
							case paused != nil && n < 3:
								r.start(paused)
								paused = nil
							case paused != nil:
							case n < 3:
								r.drain()
							case n < 5:
								r.some()
							case n == 5 && !w.empty():
								paused = r.pause()
							}
						}
						w.reopen()
						w.finishLine()
						if paused != nil {
							r.start(paused)
						}
						r.drain()
						compareLogs(t, w.all.String(), r.got.String())
					})
				}
			})
		}
	}
}

// followAnswer runs a follow in the background and gives access to what it wrote.
type followAnswer struct {
	t      *testing.T
	stdin  *io.PipeWriter
	cancel context.CancelFunc
	done   chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func (a *followAnswer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

func (a *followAnswer) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.String()
}

func startFollow(t *testing.T, h Host, req api.LogRequest) *followAnswer {
	t.Helper()
	req.Follow = true
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	stdin, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	a := &followAnswer{t: t, stdin: in, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := Serve(ctx, h, stdin, a)
		stdin.Close()
		a.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		in.Close()
	})
	if _, err := in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return a
}

// waitFor waits until the answer has the text.
func (a *followAnswer) waitFor(text string) {
	a.t.Helper()
	eventually(a.t, func() bool { return strings.Contains(a.String(), text) }, func() string {
		return fmt.Sprintf("waiting for %q, got %q", text, a.String())
	})
}

// stop says stop and returns the body.
func (a *followAnswer) stop() string {
	a.t.Helper()
	if _, err := a.stdin.Write([]byte(api.StopLine + "\n")); err != nil {
		a.t.Fatalf("saying stop: %v; got %q", err, a.String())
	}
	if err := a.wait(); err != nil {
		a.t.Fatalf("Serve: %v", err)
	}
	_, body := splitAnswer(a.t, a.String())
	return body
}

func (a *followAnswer) wait() error {
	a.t.Helper()
	select {
	case err := <-a.done:
		return err
	case <-time.After(30 * time.Second):
		a.t.Fatalf("the follow does not end; got %q", a.String())
		return nil
	}
}

func eventually(t *testing.T, done func() bool, what func() string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatal(what())
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // between two looks at the condition
	}
}

// writeAndRotate ends each file with a rotation and the last one with a last line.
func (w *scriptedWriter) writeAndRotate(files int, rotate func(*scriptedWriter)) {
	for range files {
		for range 200 {
			w.lines++
			w.append(fmt.Sprintf("line %06d %d\n", w.lines, w.rand.Uint64()))
		}
		rotate(w)
	}
	w.finishLine()
	w.append("last\n")
}

// TestFollowConcurrent rotates as fast as it can while a real follow runs, is
// stopped and resumed. It proves what the scripted test cannot: that looking at the
// directory while it changes loses nothing.
func TestFollowConcurrent(t *testing.T) {
	for _, style := range []struct {
		name   string
		rotate func(*scriptedWriter)
	}{
		{"rename", (*scriptedWriter).rename},
		{"shift", (*scriptedWriter).shift},
		{"late", (*scriptedWriter).renameLate},
	} {
		t.Run(style.name, func(t *testing.T) {
			if style.name == "late" && runtime.GOOS == "windows" {
				t.Skip("Windows does not rename a file that its writer holds open")
			}
			h := &testHost{root: t.TempDir()}
			w := newScriptedWriter(t, rand.New(rand.NewPCG(1, 2)), h.root)
			w.append("first\n")
			w.concurrent = true
			var got strings.Builder
			req := api.LogRequest{Queries: []string{"x"}, EmitCursor: true}
			var written chan struct{}
			for last := false; !last; {
				a := startFollow(t, h, req)
				if written == nil {
					// It begins with the present file, so that must be the first.
					a.waitFor("first\n")
					written = make(chan struct{})
					go func() {
						defer close(written)
						w.writeAndRotate(40, style.rotate)
					}()
				}
				a.waitFor("}\n") // the header
				select {
				case <-written:
					a.waitFor("last\n")
				default:
				}
				text, cursor := splitCursor(t, a.stop())
				if strings.Contains(text, "# gap") {
					t.Fatalf("gap in %q", text)
				}
				got.WriteString(text)
				req.Cursor = cursor
				last = strings.Contains(text, "last\n")
			}
			<-written
			compareLogs(t, w.all.String(), got.String())
		})
	}
}

// TestReadWhileTruncated: what is there when a read begins is read, although the log is copied and
// truncated meanwhile.
func TestReadWhileTruncated(t *testing.T) {
	for _, tt := range []struct {
		name string
		// more is how many lines are written after the truncation.
		more int
	}{{"empty since then", 0}, {"shorter since then", 10}, {"longer since then", 5000}} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			w := newScriptedWriter(t, rand.New(rand.NewPCG(1, 2)), dir)
			lines := func(n int) {
				for range n {
					w.lines++
					w.append(fmt.Sprintf("line %06d %s\n", w.lines, strings.Repeat("x", 100)))
				}
			}
			lines(3000)
			want := w.all.String()
			r := &scriptedReader{
				t: t, q: query{kind: serviceQuery, text: "x", name: "x"},
				o: &opener{host: &testHost{root: dir}, plan: &plan{LogRequest: &api.LogRequest{}}, root: logRoot{dir}},
			}
			r.start(nil)
			defer func() { r.src.close() }()
			r.some()
			w.copyTruncate()
			lines(tt.more)
			r.drain()
			compareLogs(t, want, r.got.String())
		})
	}
}
