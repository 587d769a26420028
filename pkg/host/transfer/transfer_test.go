// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package transfer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/test/winhost"
	"github.com/openshift/windows-instance-api/test/winhost/hosttest"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// site is a host of one tier and what is needed to put files there.
type site struct {
	t      *testing.T
	host   winhost.Host
	target hostssh.Target
	pool   *hostssh.Pool
	remote *localRemote
}

// onAllTiers adds a host with the file system of Windows, as Wine has it.
func onAllTiers(t *testing.T, test func(*testing.T, *site)) {
	t.Helper()
	onTiers(t, test)
	t.Run(winhost.TierWine, func(t *testing.T) { test(t, newSite(t, winhost.TierWine)) })
}

// onTiers runs a test against an in-process host, which has the paths and the manners of
// Windows, and against one with OpenSSH, which has the real SFTP server.
func onTiers(t *testing.T, test func(*testing.T, *site)) {
	t.Helper()
	for _, tier := range []string{winhost.TierInProcess, winhost.TierOpenSSH} {
		t.Run(tier, func(t *testing.T) { test(t, newSite(t, tier)) })
	}
}

func newSite(t *testing.T, tier string) *site {
	t.Helper()
	signer := hosttest.NewKey(t)
	host := hosttest.Start(t, winhost.Options{Tier: tier, AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	pool := hostssh.New(transfer.PoolOptions(hostssh.Options{}))
	t.Cleanup(func() { _ = pool.Close() })
	return &site{
		t: t, host: host, pool: pool, remote: newRemote(host.LocalPath),
		target: hostssh.Target{
			Address: host.Address(), Port: host.Port(), User: host.User(),
			Credential: hostssh.Credential{Signers: []ssh.Signer{signer}}, HostKeys: []ssh.PublicKey{host.HostKey()},
		},
	}
}

// path is that of a file on the host.
func (s *site) path(name string) string { return `C:\k\payload\` + name }

func (s *site) transfer(o transfer.Options) *transfer.Transfer {
	o.Pool, o.Remote = s.pool, s.remote
	o.RetryDelay, o.ProgressInterval = time.Millisecond, time.Millisecond
	return transfer.New(o)
}

func (s *site) put(o transfer.Options, items ...transfer.Item) error {
	return s.transfer(o).Put(s.t.Context(), s.target, items, nil)
}

func (s *site) local(name string) string {
	s.t.Helper()
	p, err := s.host.LocalPath(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// write makes a file on the host.
func (s *site) write(name string, content []byte) {
	s.t.Helper()
	p := s.local(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, content, 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

// files are the names and the content of all that is in the directory on the host.
func (s *site) files() map[string][]byte {
	s.t.Helper()
	got := map[string][]byte{}
	entries, err := os.ReadDir(filepath.Dir(s.local("x")))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(s.local(e.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		got[e.Name()] = content
	}
	return got
}

// want compares the files of the host with those of the items, of which there must be
// no others.
func (s *site) want(want map[string][]byte) {
	s.t.Helper()
	short := func(files map[string][]byte) map[string]string {
		m := map[string]string{}
		for name, content := range files {
			m[name] = fmt.Sprintf("%d bytes, %.16s", len(content), digest(content))
		}
		return m
	}
	if diff := cmp.Diff(short(want), short(s.files())); diff != "" {
		s.t.Errorf("files on the host (-want +got):\n%s", diff)
	}
}

func (s *site) fault(f winhost.Fault) {
	s.t.Helper()
	if err := s.host.SetFault(f); err != nil {
		s.t.Fatal(err)
	}
}

// seekCloser is a content in memory.
type seekCloser struct{ *bytes.Reader }

func (seekCloser) Close() error { return nil }

func opener(content []byte) func() (io.ReadSeekCloser, error) {
	return func() (io.ReadSeekCloser, error) { return seekCloser{bytes.NewReader(content)}, nil }
}

// item is a file with a content.
func (s *site) item(name string, content []byte) transfer.Item {
	return transfer.Item{Name: name, HostPath: s.path(name), SHA256: digest(content), Size: int64(len(content)), Open: opener(content)}
}

// compressed is an item that has a compressed form, too.
func (s *site) compressed(name string, content []byte) transfer.Item {
	s.t.Helper()
	item, err := gzipItem(s.item(name, content), content, gzip.BestSpeed)
	if err != nil {
		s.t.Fatal(err)
	}
	return item
}

// gzipItem gives an item its compressed form.
func gzipItem(item transfer.Item, content []byte, level int) (transfer.Item, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return item, err
	}
	_, err = w.Write(content)
	item.Gzip = &transfer.Gzip{}
	if err := errors.Join(err, w.Close()); err != nil {
		return item, err
	}
	*item.Gzip = transfer.Gzip{SHA256: digest(b.Bytes()), Size: int64(b.Len()), Open: opener(b.Bytes())}
	return item, nil
}

// temporary is the name under which an item is uploaded.
func temporary(item transfer.Item) string {
	name := item.Name + "." + item.SHA256[:16]
	if item.Gzip != nil {
		name += ".gz"
	}
	return name + ".part"
}

// random is incompressible content that is the same in each run.
func random(size int, seed byte) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

const mib = 1 << 20

func TestPut(t *testing.T) {
	onAllTiers(t, func(t *testing.T, s *site) {
		want := map[string][]byte{
			"empty":       {},
			"small":       []byte("text"),
			"large.exe":   random(5*mib+1, 1),
			"packed.exe":  bytes.Repeat([]byte("windows"), mib/4),
			"another.exe": random(300_000, 2),
		}
		s.write("small", []byte("what was there before"))
		var items []transfer.Item
		for name, content := range want {
			if name == "packed.exe" {
				items = append(items, s.compressed(name, content))
			} else {
				items = append(items, s.item(name, content))
			}
		}
		var last transfer.Progress
		tr := s.transfer(transfer.Options{})
		if err := tr.Put(t.Context(), s.target, items, func(p transfer.Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		s.want(want)
		if last.Sent != last.Total || last.Total < 5*mib || last.Total > 6*mib {
			t.Errorf("%d of %d bytes were sent", last.Sent, last.Total)
		}
		for _, f := range last.Files {
			if f.Stage != transfer.StageDone || f.Sent != f.Total {
				t.Errorf("%s: %s, %d of %d bytes", f.Name, f.Stage, f.Sent, f.Total)
			}
		}

		// Nothing moves that is there.
		s.remote.commits.Store(0)
		if err := tr.Put(t.Context(), s.target, items, func(p transfer.Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		if n := s.remote.commits.Load(); n != 0 || last.Total != 0 || last.Files[0].Stage != transfer.StageSkipped {
			t.Errorf("%d files, %d bytes were sent again; the first is %s", n, last.Total, last.Files[0].Stage)
		}
	})
}

// TestResume has every connection break before a whole file fits through it.
func TestResume(t *testing.T) {
	onTiers(t, func(t *testing.T, s *site) {
		plain, packed := random(10*mib, 1), random(6*mib, 2)
		s.fault(winhost.Fault{CutAfterBytes: 5 * mib})
		// One at a time: each attempt is to get somewhere.
		if err := s.put(transfer.Options{FilesPerHost: 1}, s.item("plain.exe", plain), s.compressed("packed.exe", packed)); err != nil {
			t.Fatal(err)
		}
		s.want(map[string][]byte{"plain.exe": plain, "packed.exe": packed})
	})
}

// TestResumeLater has a transfer end in the middle and another one go on.
func TestResumeLater(t *testing.T) {
	onAllTiers(t, func(t *testing.T, s *site) {
		content := random(8*mib, 1)
		item := s.item("kubelet.exe", content)
		s.fault(winhost.Fault{CutAfterBytes: 7 * mib})
		if err := s.put(transfer.Options{Attempts: 1}, item); err == nil {
			t.Fatal("a connection that broke was no error")
		} else if e := (*transfer.Error)(nil); !errors.As(err, &e) || e.Name != "kubelet.exe" {
			t.Errorf("the error does not name the file: %v", err)
		}
		partial := s.files()[temporary(item)]
		if len(partial) < 4*mib || !bytes.HasPrefix(content, partial[:len(partial)-3*mib]) {
			t.Fatalf("the host has %d bytes", len(partial))
		}
		// What is left fits through a connection that is cut earlier.
		s.fault(winhost.Fault{CutAfterBytes: 15 * mib / 2})
		if err := s.put(transfer.Options{Attempts: 1}, item); err != nil {
			t.Fatal(err)
		}
		s.want(map[string][]byte{"kubelet.exe": content})
	})
}

// TestLeftover has something else on the host than a clean beginning.
func TestLeftover(t *testing.T) {
	const size, most = 4 * mib, 3 * mib
	content := random(size, 1)
	tests := []struct {
		name     string
		leftover []byte
	}{
		{"nothing", []byte{}},
		{"little", content[:100]},
		{"most of it", content[:most]},
		{"most of it, damaged", make([]byte, most)},
		{"most of it, with a hole near the end", slices.Concat(content[:2*mib], make([]byte, most-2*mib-100), content[most-100:most])},
		{"all of it", content},
		{"all of it, damaged", make([]byte, size)},
		{"too much", make([]byte, size+1)},
	}
	onTiers(t, func(t *testing.T, s *site) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				name := strings.ReplaceAll(tt.name, " ", "-")
				item := s.item(name, content)
				item.Name = name
				s.write(temporary(item), tt.leftover)
				// Left by transfers of other content; the last one is somebody else's.
				s.write(name+".0123456789abcdef.part", []byte("old"))
				s.write(name+".0123456789abcdef.gz.part", []byte("old"))
				s.write(name+".other.part", []byte("keep"))
				if err := s.put(transfer.Options{}, item); err != nil {
					t.Fatal(err)
				}
				s.want(map[string][]byte{name: content, name + ".other.part": []byte("keep")})
				if err := os.RemoveAll(filepath.Dir(s.local(name))); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func TestDiskFull(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		onTiers(t, func(t *testing.T, s *site) {
			s.remote.free.Store(64*mib + 4*mib - 1)
			err := s.put(transfer.Options{}, s.item("a", random(2*mib, 1)), s.item("b", random(2*mib, 2)))
			if !errors.Is(err, transfer.ErrDiskFull) || !strings.Contains(err.Error(), "C: has 68.0 MiB free") {
				t.Errorf("got %v", err)
			}
			s.want(map[string][]byte{})
		})
	})
	t.Run("enough", func(t *testing.T) {
		onTiers(t, func(t *testing.T, s *site) {
			s.remote.free.Store(64*mib + 2*mib)
			if err := s.put(transfer.Options{}, s.item("a", random(2*mib, 1))); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("not known", func(t *testing.T) {
		onTiers(t, func(t *testing.T, s *site) {
			s.remote.free.Store(-1)
			if err := s.put(transfer.Options{}, s.item("a", random(2*mib, 1))); err != nil {
				t.Error(err)
			}
		})
	})
	// OpenSSH hosts cannot express a full disk.
	for _, tt := range []struct {
		name  string
		files int
		free  int64 // seen after a write was refused
		want  error
	}{
		{"meanwhile", 3, 1000, transfer.ErrDiskFull},
		// Of several, the others would be left to be continued.
		{"refused for another reason", 1, 1 << 40, transfer.ErrWrite},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, winhost.TierInProcess)
			s.fault(winhost.Fault{DiskFull: true})
			var items []transfer.Item
			for i := range tt.files {
				item := s.item(fmt.Sprintf("f%d", i), random(2*mib, byte(i)))
				open := item.Open
				item.Open = func() (io.ReadSeekCloser, error) { // by then it was found sufficient
					s.remote.free.Store(tt.free)
					return open()
				}
				items = append(items, item)
			}
			if err := s.put(transfer.Options{}, items...); !errors.Is(err, tt.want) {
				t.Errorf("got %v", err)
			}
			s.want(map[string][]byte{})
		})
	}
}

// TestWrongContent has content here or on the host that is not what it should be. What had
// the name before is still there then.
func TestWrongContent(t *testing.T) {
	before, content := []byte("before"), random(mib, 1)
	changed := slices.Clone(content)
	changed[mib/2]++
	tests := []struct {
		name   string
		source []byte
		commit func(c api.CommitRequest, local string) error
		want   error
	}{
		{"other bytes", changed, nil, transfer.ErrSourceChanged},
		{"too short", content[:mib-1], nil, transfer.ErrSourceChanged},
		{"empty", nil, nil, transfer.ErrSourceChanged},
		{"too long", append(slices.Clone(content), 'x'), nil, transfer.ErrSourceChanged},
		{"damaged on the host", content, func(_ api.CommitRequest, local string) error {
			return os.WriteFile(local, changed, 0o644)
		}, transfer.ErrDigest},
		{"in use", content, func(api.CommitRequest, string) error { return transfer.ErrInUse }, transfer.ErrInUse},
	}
	onTiers(t, func(t *testing.T, s *site) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s.write("kubelet.exe", before)
				item := s.item("kubelet.exe", content)
				item.Open = opener(tt.source)
				s.remote.beforeCommit = tt.commit
				if err := s.put(transfer.Options{}, item); !errors.Is(err, tt.want) {
					t.Errorf("got %v", err)
				}
				want := map[string][]byte{"kubelet.exe": before}
				if errors.Is(tt.want, transfer.ErrInUse) {
					want[temporary(item)] = content // to be continued
				}
				s.want(want)
			})
		}
	})
}

// TestSourceFails has the content's own reader fail, as that of a payload does when it is wrong.
func TestSourceFails(t *testing.T) {
	s := newSite(t, winhost.TierInProcess)
	wrong := errors.New("the digest is wrong")
	item := s.item("a", random(mib, 1))
	item.Open = func() (io.ReadSeekCloser, error) { return failing{item.Size, wrong}, nil }
	if err := s.put(transfer.Options{}, item); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	item.Open = func() (io.ReadSeekCloser, error) { return nil, wrong }
	if err := s.put(transfer.Options{}, item); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	if _, there := s.files()["a"]; there {
		t.Error("the file has its final name")
	}
}

// failing delivers half of what it should and then an error.
type failing struct {
	size int64
	err  error
}

func (f failing) Read([]byte) (int, error)       { return 0, f.err }
func (f failing) Seek(int64, int) (int64, error) { return 0, nil }
func (f failing) Close() error                   { return nil }

// TestAnswerLost has the connection break after the host gave the file its name.
func TestAnswerLost(t *testing.T) {
	s := newSite(t, winhost.TierInProcess)
	content := random(mib, 1)
	done := false
	s.remote.beforeCommit = func(c api.CommitRequest, local string) error {
		if done {
			return errors.New("asked again")
		}
		done = true
		final, err := s.host.LocalPath(c.Path)
		return errors.Join(err, os.Rename(local, final), &hostssh.Error{Layer: hostssh.LayerSession, Reason: hostssh.ReasonConnectionLost})
	}
	if err := s.put(transfer.Options{}, s.item("a", content)); err != nil {
		t.Fatal(err)
	}
	s.want(map[string][]byte{"a": content})
}

func TestHostGone(t *testing.T) {
	onTiers(t, func(t *testing.T, s *site) {
		reading := make(chan struct{})
		item := s.item("a", random(mib, 1))
		item.Open = func() (io.ReadSeekCloser, error) {
			select {
			case <-reading:
			default:
				if err := s.host.PowerOff(); err != nil {
					t.Error(err)
				}
				close(reading)
			}
			return opener(random(mib, 1))()
		}
		err := s.put(transfer.Options{Attempts: 2}, item)
		e, ok := hostssh.AsError(err)
		if !ok || e.Reason != hostssh.ReasonConnectionRefused {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancel(t *testing.T) {
	onTiers(t, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		reason := errors.New("the instance was deleted")
		content := random(4*mib, 1)
		item := s.item("a", content)
		item.Open = func() (io.ReadSeekCloser, error) {
			return &tripwire{Reader: bytes.NewReader(content), at: 2 * mib, trip: func() { cancel(reason) }}, nil
		}
		if err := s.transfer(transfer.Options{}).Put(ctx, s.target, []transfer.Item{item}, nil); !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		if _, there := s.files()["a"]; there {
			t.Error("the file has its final name")
		}
		item.Open = opener(content)
		if err := s.put(transfer.Options{}, item); err != nil {
			t.Fatal(err)
		}
		s.want(map[string][]byte{"a": content})
	})
}

// tripwire calls trip when it was read up to a place.
type tripwire struct {
	*bytes.Reader
	at   int
	trip func()
}

func (w *tripwire) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if w.Reader.Len() <= w.at && w.trip != nil {
		w.trip()
		w.trip = nil
	}
	return n, err
}

func (w *tripwire) Close() error { return nil }

func TestReadOnly(t *testing.T) {
	s := newSite(t, winhost.TierInProcess)
	s.fault(winhost.Fault{SFTPReadOnly: true})
	err := s.put(transfer.Options{Attempts: 1000}, s.item("a", []byte("text")))
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// TestSamePlace has two transfers to one host at a time, whose files must not get in each
// other's way.
func TestSamePlace(t *testing.T) {
	s := newSite(t, winhost.TierInProcess)
	content := random(mib, 1)
	tr := s.transfer(transfer.Options{})
	errs := make(chan error)
	for range 3 {
		go func() { errs <- tr.Put(t.Context(), s.target, []transfer.Item{s.item("a", content)}, nil) }()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := s.remote.commits.Load(); n != 1 {
		t.Errorf("the file was sent %d times", n)
	}
	s.want(map[string][]byte{"a": content})
}

// TestConnections has four files move over two connections.
func TestConnections(t *testing.T) {
	s := newSite(t, winhost.TierOpenSSH)
	var items []transfer.Item
	for i := range 4 {
		items = append(items, s.item(fmt.Sprintf("f%d", i), random(mib, byte(i))))
		items[i].Open = func() (io.ReadSeekCloser, error) {
			hosttest.Eventually(t, "there are two connections", func() bool {
				return s.host.Connections() == 2
			})
			return opener(random(mib, byte(i)))()
		}
	}
	if err := s.put(transfer.Options{}, items...); err != nil {
		t.Error(err)
	}
}

func TestInvalidItems(t *testing.T) {
	good := func() transfer.Item {
		return transfer.Item{Name: "a", HostPath: `C:\k\a`, SHA256: digest(nil), Open: opener(nil)}
	}
	tests := []struct {
		name string
		edit func(*transfer.Item)
		want string
	}{
		{"relative", func(i *transfer.Item) { i.HostPath = `k\a` }, "not absolute"},
		{"drive only", func(i *transfer.Item) { i.HostPath = `C:a` }, "not absolute"},
		{"no digest", func(i *transfer.Item) { i.SHA256 = "" }, "no SHA-256 digest"},
		{"upper case", func(i *transfer.Item) { i.SHA256 = strings.ToUpper(i.SHA256) }, "no SHA-256 digest"},
		{"negative", func(i *transfer.Item) { i.Size = -1 }, "size is negative"},
		{"no content", func(i *transfer.Item) { i.Open = nil }, "Open is nil"},
		{"the same file", func(i *transfer.Item) { i.HostPath = "c:/K/./B" }, "b has the same path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			item, other := good(), good()
			other.Name, other.HostPath = "b", `C:\k\b`
			tt.edit(&item)
			err := transfer.New(transfer.Options{}).Put(t.Context(), hostssh.Target{}, []transfer.Item{other, item}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path.Base(item.Name)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
