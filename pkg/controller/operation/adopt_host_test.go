// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build unix

package operation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/agent/engine"
	"github.com/openshift/windows-instance-api/pkg/desired/document"
	"github.com/openshift/windows-instance-api/pkg/wmco"
	"github.com/openshift/windows-instance-api/test/agenthost"
	"github.com/openshift/windows-instance-api/test/wmcostandin"
)

// madeHost is a host that WMCO has made, and that has programs of somebody else, too.
type madeHost struct {
	*agenthost.System
	platform configv1.PlatformType
	drive    string
	boots    int
	// before is what was there before WMCO came.
	before map[string]string
	bundle config.Bundle
}

// clouds are the platforms on which WMCO has more on hosts, and one on which it has not.
var clouds = []configv1.PlatformType{configv1.NonePlatformType, configv1.AWSPlatformType, configv1.AzurePlatformType}

func newMadeHost(t *testing.T, platform configv1.PlatformType) *madeHost {
	t.Helper()
	h := &madeHost{platform: platform, drive: filepath.Join(t.TempDir(), "c")}
	h.System = agenthost.NewSystem(h.drive, func() (string, error) { return fmt.Sprint(h.boots), nil })
	for _, path := range []string{`C:\Temp`, `C:\Windows`, `C:\ProgramData`, api.Root, `C:\var`, `C:\var\log`} {
		h.must(t, h.MakeDirectory(path, config.AccessInherited))
	}
	theirs := testCertificate(t)
	block, _ := pem.Decode(theirs)
	h.must(t, h.WriteFile(`C:\Temp\theirs.txt`, []byte("theirs"), config.AccessInherited))
	h.must(t, h.Link(`C:\var\log\theirs.log`, `C:\Temp\theirs.txt`))
	h.must(t, h.AddCertificate(config.StoreRoot, block.Bytes))
	h.must(t, h.SetEnvironment("PATH", new("theirs")))
	h.must(t, h.SetFirewallRule(config.FirewallRule{Name: "Theirs", Protocol: config.ProtocolTCP, Port: 8080}))
	h.before = h.picture(t)
	h.must(t, wmcostandin.Made{
		Node: testNode, Platform: platform, KubeletVersion: "v1.37.1", Bootstrap: []byte("{}"), ServerCA: theirs, ClientCA: theirs,
		Trusted: testCertificate(t), Proxy: wmcostandin.ProxyOfCluster(),
	}.Put(h))
	h.bundle = h.desired(t)
	return h
}

// desired is the configuration of the host in a cluster that has no proxy any more and trusts another authority. What it is made of is on the host.
func (h *madeHost) desired(t *testing.T) config.Bundle {
	t.Helper()
	in := document.Inputs{
		Cluster: document.Cluster{
			ServiceOptions: document.ServiceOptions{Platform: h.platform, APIServerURL: "https://api-int.example.com:6443"},
			ServiceCIDRs:   []string{"172.30.0.0/16"}, KubeletCA: []byte("a CA"), APIServerCA: []byte("a CA"), ExporterCertificate: []byte("a certificate"), ExporterKey: []byte("its key"),
			TrustedCA: testCertificate(t),
		},
		Instance:  document.Instance{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}},
		Node:      &document.Node{Name: testNode, Subnet: "10.132.0.0/24"},
		DigestKey: []byte("0123456789abcdef0123456789abcdef"),
	}
	switch h.platform {
	case configv1.AWSPlatformType:
		in.Cluster.KubeletArguments = map[string]string{"cloud-provider": "external"}
		in.Cluster.CredentialProvider, in.Cluster.CredentialProviderConfig = true, []byte("kind: CredentialProviderConfig")
	case configv1.AzurePlatformType:
		in.Cluster.KubeletArguments = map[string]string{"cloud-provider": "external", "cloud-config": "/etc/kubernetes/cloud.conf"}
		in.Cluster.CloudConfig = config.SecretValue("{}")
		in.Cluster.NodeManager = &document.TokenCredentials{CA: []byte("a CA"), Token: "a token"}
	default:
	}
	for _, f := range wmco.PayloadFiles(h.platform) {
		if !strings.HasSuffix(f.Source, ".exe") {
			continue
		}
		_, name := wmco.SplitPath(f.Path())
		in.Payload.Files = append(in.Payload.Files, document.PayloadFile{
			Name: f.Source, Component: strings.TrimSuffix(name, ".exe"), Version: "v1", Path: f.Path(), Size: int64(len(f.Source)),
			SHA256: strings.TrimPrefix(config.Digest([]byte(f.Source)), "sha256:"),
		})
	}
	result, err := document.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return result.Bundle
}

// update applies the desired configuration, as a controller does.
func (h *madeHost) update(t *testing.T) {
	t.Helper()
	for range 4 {
		h.must(t, h.MakeDirectory(api.PayloadDirectory, config.AccessInherited))
		for _, f := range h.bundle.Document.Files {
			if f.Source.Payload != "" {
				h.must(t, h.WriteFile(api.PayloadPath(f.Digest), []byte(f.Source.Payload), config.AccessInherited))
			}
		}
		switch r := h.engine().Apply(t.Context(), &api.ApplyRequest{Allow: config.ImpactReboot, Bundle: h.bundle}); r.Outcome {
		case api.OutcomeRebootRequired:
			h.boots++
		case api.OutcomeApplied:
			return
		default:
			t.Fatalf("the update is %s: %s", r.Outcome, r.Error)
		}
	}
	t.Fatal("it needs one restart after the other")
}

func (h *madeHost) engine() *engine.Engine { return &engine.Engine{System: inCloud{h.System}} }

// inCloud is a host whose cloud knows it by the name of its Node.
type inCloud struct{ *agenthost.System }

func (h inCloud) Value(ctx context.Context, v config.Variable) (string, error) {
	if v.Source == config.SourceAWSLocalHostname {
		return testNode, nil
	}
	return h.System.Value(ctx, v)
}

func (h *madeHost) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// picture is all of a host, but for what nobody takes back: its name, and its features.
func (h *madeHost) picture(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	h.must(t, filepath.WalkDir(h.drive, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(h.drive, path)
		out[`C:\`+strings.ReplaceAll(name, "/", `\`)] = entry.Type().String()
		return err
	}))
	text, err := os.ReadFile(h.drive + ".json")
	h.must(t, err)
	var settings map[string]json.RawMessage
	h.must(t, json.Unmarshal(text, &settings))
	for kind, text := range settings {
		var entries map[string]json.RawMessage
		if kind == "Features" || json.Unmarshal(text, &entries) != nil {
			continue
		}
		for name, value := range entries {
			out[kind+" "+name] = string(value)
		}
	}
	return out
}

func testCertificate(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// TestPlanOfAdoption: what the first update of a host of WMCO does is known before it is adopted.
func TestPlanOfAdoption(t *testing.T) {
	t.Parallel()
	for _, platform := range clouds {
		t.Run(string(platform), func(t *testing.T) {
			t.Parallel()
			planOfAdoption(t, newMadeHost(t, platform))
		})
	}
}

func planOfAdoption(t *testing.T, h *madeHost) {
	t.Helper()
	before := h.picture(t)
	got, err := h.engine().PlanAdoption(t.Context(), h.adoption())
	h.must(t, err)
	if diff := cmp.Diff(before, h.picture(t)); diff != "" {
		t.Errorf("it was changed (-before +now):\n%s", diff)
	}
	h.adopt(t)
	want, err := h.engine().Plan(t.Context(), &h.bundle)
	h.must(t, err)
	if diff := cmp.Diff(want, got); diff != "" || want.Impact != config.ImpactReboot {
		t.Errorf("its impact is %s (-afterwards +before):\n%s", want.Impact, diff)
	}
}

// TestAdoptedHostIsCleaned: all that WMCO and its daemon have left on a host goes with the host, whether it was updated before or not. What
// others have there stays.
func TestAdoptedHostIsCleaned(t *testing.T) {
	t.Parallel()
	for name, updated := range map[string]bool{"as it was adopted": false, "after an update": true} {
		for _, platform := range clouds {
			t.Run(name+", "+string(platform), func(t *testing.T) {
				t.Parallel()
				adoptedHostIsCleaned(t, newMadeHost(t, platform), updated)
			})
		}
	}
}

func adoptedHostIsCleaned(t *testing.T, h *madeHost, updated bool) {
	t.Helper()
	h.adopt(t)
	if updated {
		h.update(t)
		h.mustRun(t)
		leftovers := []string{`C:\k\wicd-certs`, `C:\var\log\wicd`, "Environment HTTP_PROXY"}
		if h.platform != configv1.AzurePlatformType { // our cloud node manager logs in with a file of that name, too
			leftovers = append(leftovers, `C:\k\wicd-kubeconfig`)
		}
		for _, leftover := range leftovers {
			if _, there := h.picture(t)[leftover]; there {
				t.Errorf("%s is there after the update", leftover)
			}
		}
	}
	if r := h.engine().Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved {
		t.Fatalf("the removal is %s: %s", r.Outcome, r.Error)
	}
	h.boots++
	if r := h.engine().Cleanup(t.Context()); r.Outcome != api.OutcomeRemoved || len(r.Reboot) > 0 {
		t.Fatalf("the removal after a restart is %s: %s, %q", r.Outcome, r.Error, r.Reboot)
	}
	if diff := cmp.Diff(h.before, h.picture(t)); diff != "" {
		t.Errorf("it is not as it was before WMCO came (-before +now):\n%s", diff)
	}
}

// mustRun fails the test unless all services of the document run that are not waiting.
func (h *madeHost) mustRun(t *testing.T) {
	t.Helper()
	for _, s := range h.bundle.Document.Services {
		if is, err := h.Service(s.Name); !s.Waiting && (err != nil || is == nil || is.State != engine.ServiceRunning) {
			t.Errorf("service %s is %+v, %v", s.Name, is, err)
		}
	}
}

// TestReleasedHostIsCleanedByWMCO: WMCO takes away from a host that was given back what it takes away from one that it has kept.
func TestReleasedHostIsCleanedByWMCO(t *testing.T) {
	t.Parallel()
	clean := func(h *madeHost) map[string]string {
		h.must(t, wmcostandin.Host{System: h, Name: testNode}.Clean(t.Context()))
		return h.picture(t)
	}
	kept := clean(newMadeHost(t, configv1.NonePlatformType))
	for name, updated := range map[string]bool{"as it was adopted": false, "after an update": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newMadeHost(t, configv1.NonePlatformType)
			h.adopt(t)
			if updated {
				h.update(t)
			}
			r := h.engine().Release(t.Context(), &releaseToWMCO)
			if r.Outcome != api.OutcomeReleased {
				t.Fatalf("the release is %s: %s", r.Outcome, r.Error)
			}
			want, got := maps.Clone(kept), clean(h)
			if updated { // what we have besides: another port, and what WMCO does not know either, as docs/user-guide.md says
				want["Firewall kubeproxyhealth"] = got["Firewall kubeproxyhealth"]
			}
			for _, p := range []map[string]string{want, got} { // the certificate of others is another one on each host
				trusted := len(p)
				maps.DeleteFunc(p, func(name, _ string) bool { return strings.HasPrefix(name, "Certificates ") })
				p["certificates"] = fmt.Sprint(trusted - len(p))
				for name := range p { // how rules look that both have is not told apart
					if strings.HasPrefix(name, "Firewall ") {
						p[name] = "there"
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-kept by WMCO +given back):\n%s", diff)
			}
		})
	}
}

// adoption is what an operation requests of the host.
func (h *madeHost) adoption() *api.AdoptRequest {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, Annotations: map[string]string{wmco.VersionAnnotation: "11.0.0"}}}
	return adoptionOf(node, &document.Result{Bundle: h.bundle})
}

// adopt adopts the host, as an operation does.
func (h *madeHost) adopt(t *testing.T) {
	t.Helper()
	if r := h.engine().Adopt(t.Context(), h.adoption()); r.Outcome != api.OutcomeApplied {
		t.Fatalf("the adoption is %s: %s", r.Outcome, r.Error)
	}
}
