// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/desired/payload"
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
	"github.com/openshift/windows-instance-api/pkg/host/transfer"
	"github.com/openshift/windows-instance-api/test/winhost"
)

// file is what a host needs of the payload.
func (c *configurable) file(t *testing.T, name string) api.PayloadFile {
	t.Helper()
	f := c.client.options.Payload.Payloads()[0].Manifest.File(name)
	if f == nil {
		t.Fatalf("%s is not in the payload", name)
	}
	digest := digestPrefix + f.SHA256
	return api.PayloadFile{Name: name, Digest: digest, Size: f.Size, Path: api.PayloadPath(digest)}
}

// TestDeliverNothing: what this process cannot send, or must not, is told before the host is contacted.
func TestDeliverNothing(t *testing.T) {
	other := config.Digest([]byte("other"))
	for _, tt := range []struct {
		name    string
		wants   string // name of the file
		change  func(*api.PayloadFile)
		prepare func(t *testing.T, c *configurable)
		want    string
	}{
		{
			name: "no payload", wants: random, prepare: func(_ *testing.T, c *configurable) { c.client.options.Payload = nil },
			want: "the host needs containerd.exe, and this process has no payload",
		},
		{
			name: "unknown", wants: random, change: func(f *api.PayloadFile) { f.Name = "csi-proxy.exe" },
			want: "the host needs csi-proxy.exe, which the payload of this process does not have",
		},
		{
			name: "another build", wants: random, change: func(f *api.PayloadFile) { f.Digest, f.Path = other, api.PayloadPath(other) },
			want: "with the digest " + other + ", and the payload of this process has it with the digest sha256:",
		},
		{
			name: "elsewhere", wants: random, change: func(f *api.PayloadFile) { f.Path = `C:\Windows\System32\sethc.exe` },
			want: "where no file of the payload goes",
		},
		{
			name: "damaged", wants: random,
			prepare: func(t *testing.T, c *configurable) { damage(t, filepath.Join(c.payloadDir, "files", random)) },
			want:    "which cannot be read from the payload of this process: containerd.exe has the SHA-256 digest",
		},
		{
			name: "compressed and damaged", wants: compressible,
			prepare: func(t *testing.T, c *configurable) {
				damage(t, filepath.Join(c.payloadDir, "files", compressible+".gz"))
			},
			want: "which cannot be read from the payload of this process: ",
		},
		{
			name: "gone", wants: random,
			prepare: func(t *testing.T, c *configurable) {
				if err := os.Remove(filepath.Join(c.payloadDir, "files", random)); err != nil {
					t.Fatal(err)
				}
			},
			want: "no such file",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newConfigurable(t, winhost.InProcessOptions{})
			f := c.file(t, tt.wants)
			if tt.change != nil {
				tt.change(&f)
			}
			if tt.prepare != nil {
				tt.prepare(t, c)
			}
			err := c.client.Deliver(t.Context(), c.Instance, []api.PayloadFile{f}, nil)
			if missing := (*PayloadError)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
			if n := c.Pool.Stats().Connections; n > 0 {
				t.Errorf("the host was contacted: %d connections", n)
			}
		})
	}
}

// TestDeliverNoFiles: whoever needs none needs no payload, and is not contacted.
func TestDeliverNoFiles(t *testing.T) {
	s := newSite(t, winhost.InProcessOptions{})
	if err := s.client.Deliver(t.Context(), s.Instance, nil, nil); err != nil || s.Pool.Stats().Dials > 0 {
		t.Errorf("after %d dials: %v", s.Pool.Stats().Dials, err)
	}
}

// TestItems: what is sent is what the payload has, under the name that the host waits for, and once for all its names.
func TestItems(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	one, other := c.file(t, random), c.file(t, compressible)
	again := one
	items, err := c.client.items(t.Context(), []api.PayloadFile{one, other, again})
	if err != nil || len(items) != 2 {
		t.Fatalf("got %+v, %v", items, err)
	}
	for i, f := range []api.PayloadFile{one, other} {
		if got := items[i]; got.Name != f.Name || got.HostPath != f.Path || got.Size != f.Size || digestPrefix+got.SHA256 != f.Digest || (got.Gzip != nil) != (f.Name == compressible) {
			t.Errorf("got %+v for %+v", got, f)
		}
		content, err := items[i].Open()
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(content)
		if err != nil || config.Digest(all) != f.Digest {
			t.Errorf("%s: %d bytes, %v", f.Name, len(all), err)
		}
		_ = content.Close()
	}
}

// TestItemsSideBySide: of several payloads, what is sent comes from the one that has it, also if it was decided on with another one.
func TestItemsSideBySide(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	former := c.file(t, random)
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), random)
	content := []byte("the same program, newer")
	if err := errors.Join(os.CopyFS(filepath.Join(dir, "1.36"), os.DirFS(c.payloadDir)), os.WriteFile(source, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	slot := payload.Slot{Name: random, Path: `C:\k\` + random, Role: payload.RoleKubelet}
	if err := payload.Build(t.Context(), filepath.Join(dir, "1.37"), payload.Manifest{Name: "newer", Version: "1", OS: "windows", Architecture: "amd64"},
		[]payload.Source{{File: payload.File{Slot: slot}, LocalPath: source}}); err != nil {
		t.Fatal(err)
	}
	both, err := payload.OpenSet(t.Context(), dir, payload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = both.Close() })
	c.client.options.Payload = both
	latter := config.Digest(content)
	wanted := []api.PayloadFile{former, {Name: random, Digest: latter, Path: api.PayloadPath(latter)}}
	items, err := c.client.items(t.Context(), wanted)
	if err != nil || len(items) != 2 {
		t.Fatalf("got %+v, %v", items, err)
	}
	for i, item := range items {
		file, err := item.Open()
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(file)
		if err != nil || config.Digest(all) != wanted[i].Digest {
			t.Errorf("%s: %d bytes, %v", wanted[i].Digest, len(all), err)
		}
		_ = file.Close()
	}
}

// TestManyFiles: the agent reads requests of a bounded size, so it is asked more than once, and answers in order.
func TestManyFiles(t *testing.T) {
	var requests []int
	s := newSite(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
		var request api.FilesRequest
		if err := json.NewDecoder(c.Stdin).Decode(&request); err != nil {
			return 1, true
		}
		requests = append(requests, len(request.Files))
		var answer api.FilesAnswer
		for _, f := range request.Files {
			answer.Files = append(answer.Files, api.FileState{Exists: f.Size%2 == 0, Volume: "C:", FreeBytes: -1})
		}
		_ = json.NewEncoder(c.Stdout).Encode(answer)
		return 0, true
	}})
	s.place(t, "hostile")
	var files []api.WantedFile
	for i := range 201 {
		files = append(files, api.WantedFile{Path: api.PayloadPath(config.Digest([]byte{byte(i)})), Size: int64(i)})
	}
	states, err := remote{s.client}.Inspect(t.Context(), mustTarget(t, s), files)
	if err != nil || len(states) != len(files) || !slices.Equal(requests, []int{100, 100, 1}) {
		t.Fatalf("got %d answers to requests for %v, %v", len(states), requests, err)
	}
	for i, state := range states {
		if state.Exists != (i%2 == 0) {
			t.Errorf("file %d has the answer of another one", i)
		}
	}
}

// TestTimeForWork grows with what a host has to read.
func TestTimeForWork(t *testing.T) {
	for size, want := range map[int64]time.Duration{0: 30 * time.Second, 2 << 20: 31 * time.Second, 600 << 20: 330 * time.Second} {
		if got := reading(size); got != want {
			t.Errorf("%d bytes: %s, want %s", size, got, want)
		}
	}
}

// damage changes a byte in the middle of a file.
func damage(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDeliverResumes: what was cut off goes on where it was, and not from its beginning.
func TestDeliverResumes(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	files := []api.PayloadFile{c.file(t, random)}
	c.Pool.Forget(host.Address(c.Instance).Owner)
	c.SetFault(t, winhost.Fault{CutAfterBytes: 3 << 20})
	cut := false
	err := c.client.Deliver(t.Context(), c.Instance, files, func(p transfer.Progress) {
		if !cut && p.Sent > 0 {
			cut = true
			if err := c.Host.PowerOff(); err != nil {
				t.Error(err)
			}
		}
	})
	if _, ok := ssh.AsError(err); !ok || !cut {
		t.Fatalf("got %v, which is no error of the connection", err)
	}
	if got := c.content(t, files[0].Path); got != nil {
		t.Errorf("a file of %d bytes has its name already", len(got))
	}
	c.SetFault(t, winhost.Fault{})
	if err := c.Host.PowerOn(); err != nil {
		t.Fatal(err)
	}
	local, err := c.Host.LocalPath(files[0].Path + "." + strings.TrimPrefix(files[0].Digest, digestPrefix)[:16] + ".part")
	if err != nil {
		t.Fatal(err)
	}
	part, err := os.Stat(local)
	if err != nil {
		t.Fatal(err)
	}
	// The last 2 MiB may have holes, so they are sent again.
	least := part.Size() - 65*32<<10
	if least <= 0 {
		t.Fatalf("only %d bytes had arrived", part.Size())
	}
	first := int64(-1)
	if err := c.client.Deliver(t.Context(), c.Instance, files, func(p transfer.Progress) {
		if first < 0 {
			first = p.Sent
		}
	}); err != nil {
		t.Fatal(err)
	}
	if first < least {
		t.Errorf("it went on at byte %d of %d", first, part.Size())
	}
	if config.Digest(c.content(t, files[0].Path)) != files[0].Digest {
		t.Error("what arrived is not what was sent")
	}
}

// TestDeliverFailures: what the host says of a file is said of it here.
func TestDeliverFailures(t *testing.T) {
	state := func(free string) string {
		return `{"files":[{"exists":false,"volume":"C:","freeBytes":` + free + `}]}` + "\n"
	}
	for _, tt := range []struct {
		name    string
		answers map[string]string // by command
		want    error             // nil: an Error
		says    string
	}{
		{"no room", map[string]string{"files": state("1048576")}, transfer.ErrDiskFull, "C: has 1.0 MiB free"},
		{"no room to unpack", map[string]string{"files": state("-1"), "commit": `{"error":{"reason":"DiskFull","message":"no space left"}}` + "\n"}, transfer.ErrDiskFull, "no space left"},
		{"other content", map[string]string{"files": state("-1"), "commit": `{"error":{"reason":"DigestMismatch","message":"it has the digest x"}}` + "\n"}, transfer.ErrDigest, "it has the digest x"},
		{"in use", map[string]string{"files": state("-1"), "commit": `{"error":{"reason":"InUse","message":"it runs"}}` + "\n"}, transfer.ErrInUse, "it runs"},
		{"anything else", map[string]string{"files": state("-1"), "commit": `{"error":{"reason":"?","message":"\u001b[2J"}}` + "\n"}, nil, "?[2J"},
		{"fewer answers than files", map[string]string{"files": "{}\n"}, nil, "the request has 1 files, and the answer 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newConfigurable(t, winhost.InProcessOptions{Command: func(_ context.Context, c winhost.CommandLine) (uint32, bool) {
				_, command, _ := strings.Cut(c.Line, " ")
				say(tt.answers[command])(c.Stdout)
				return 0, true
			}})
			c.place(t, `C:\hostile`)
			err := c.client.Deliver(t.Context(), c.Instance, []api.PayloadFile{c.file(t, random)}, nil)
			if failed := (*Error)(nil); tt.want == nil && (!errors.As(err, &failed) || failed.Step != StepRun) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got a %T: %v", err, err)
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q in it", err, tt.says)
			}
		})
	}
}

// TestDeliverDiskFull: a write that fails is no reason to go on for ever.
func TestDeliverDiskFull(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	c.SetFault(t, winhost.Fault{DiskFull: true})
	err := c.client.Deliver(t.Context(), c.Instance, []api.PayloadFile{c.file(t, random)}, nil)
	// SFTP has no word for a full disk, and the disk that is behind the host has room.
	if !errors.Is(err, transfer.ErrWrite) {
		t.Errorf("got %v", err)
	}
}

// TestDeliverSilence: a transfer that does not get on is given up.
func TestDeliverSilence(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	c.client.patience.silence = 300 * time.Millisecond
	c.SetFault(t, winhost.Fault{ExecHang: true, ExecMatch: "files$"})
	err := c.client.Deliver(t.Context(), c.Instance, []api.PayloadFile{c.file(t, random)}, nil)
	if failed := (*Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "reported nothing new") {
		t.Errorf("got %v", err)
	}
}

// TestDeliverWaitsForAnother: to wait for another transfer to the host is no silence of the host.
func TestDeliverWaitsForAnother(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	// The first one takes six seconds.
	c.client.transfer = transfer.New(transfer.Options{Pool: c.Pool, Remote: remote{c.client}, HostBytesPerSecond: megabytes << 20 / 6, ProgressInterval: 10 * time.Millisecond})
	c.client.patience.silence = 3 * time.Second
	files := []api.PayloadFile{c.file(t, random)}
	second := make(chan error, 1)
	var once sync.Once
	if err := c.client.Deliver(t.Context(), c.Instance, files, func(p transfer.Progress) {
		if p.Sent > 0 {
			once.Do(func() { go func() { second <- c.client.Deliver(t.Context(), c.Instance, files, nil) }() })
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

// TestDeliverStandsStill: progress that is none is silence.
func TestDeliverStandsStill(t *testing.T) {
	c := newConfigurable(t, winhost.InProcessOptions{})
	if _, err := c.client.Facts(t.Context(), c.Instance); err != nil {
		t.Fatal(err)
	}
	c.client.transfer = transfer.New(transfer.Options{Pool: c.Pool, Remote: remote{c.client}, HostBytesPerSecond: megabytes << 20, ProgressInterval: 10 * time.Millisecond})
	c.client.patience.silence = time.Second
	frozen := false
	err := c.client.Deliver(t.Context(), c.Instance, []api.PayloadFile{c.file(t, random)}, func(p transfer.Progress) {
		if !frozen && p.Sent > 0 {
			frozen = true
			c.SetFault(t, winhost.Fault{Freeze: true})
		}
	})
	if failed := (*Error)(nil); !frozen || !errors.As(err, &failed) || !strings.Contains(err.Error(), "reported nothing new for 1s") {
		t.Errorf("got %v", err)
	}
	c.SetFault(t, winhost.Fault{})
}

// TestOverSFTP: drive C is a directory for SFTP.
func TestOverSFTP(t *testing.T) {
	want := "/C:/Windows/windows-node-agent/payload/" + strings.TrimPrefix(config.Digest(nil), digestPrefix)
	if got := overSFTP(api.PayloadPath(config.Digest(nil))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
