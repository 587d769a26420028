// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package policy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/windows-instance-api/pkg/controller/csr/policy"
)

const bootstrapper = "system:bootstrap:abcdef"

// host is a host that is a node.
func host() policy.Instance {
	return policy.Instance{
		ID:        "ns/win-1",
		Names:     policy.HostNames("win-1.example.com"),
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")},
		Node:      "win-1",
	}
}

// joining is the host before it is a node.
func joining() policy.Instance {
	i := host()
	i.Node = ""
	return i
}

// content is what a request asks for, with the rest of the CSR.
type content struct {
	template x509.CertificateRequest
	spec     certificatesv1.CertificateSigningRequestSpec
	status   certificatesv1.CertificateSigningRequestStatus
}

func client() *content {
	return &content{
		template: x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:win-1", Organization: []string{"system:nodes"}}},
		spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: "system:node:win-1",
			Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

func serving() *content {
	c := client()
	c.template.DNSNames = []string{"win-1", "win-1.example.com"}
	c.template.IPAddresses = []net.IP{net.ParseIP("10.0.0.5"), net.ParseIP("fd00::5")}
	c.spec.SignerName = certificatesv1.KubeletServingSignerName
	c.spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	return c
}

func encode(t testing.TB, template x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// otherName is a subject alternative name of a kind that Go does not parse: a user
// principal name (RFC 4556).
func otherName(t testing.TB) pkix.Extension {
	t.Helper()
	// otherName is [0] { OBJECT IDENTIFIER, [0] UTF8String }.
	value, err := asn1.Marshal(struct {
		ID   asn1.ObjectIdentifier
		Name string `asn1:"explicit,tag:0,utf8"`
	}{asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}, "admin@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	var sequence asn1.RawValue
	if _, err := asn1.Unmarshal(value, &sequence); err != nil {
		t.Fatal(err)
	}
	names, err := asn1.Marshal([]asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("win-1")},
		{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: sequence.Bytes},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: names}
}

// namesAndMore has the name of the host, and something behind it that Go does not read.
func namesAndMore(t testing.TB) pkix.Extension {
	t.Helper()
	names, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("win-1")}})
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: append(names, asn1.NullBytes...)}
}

func TestDecide(t *testing.T) {
	another := func(id, node string) policy.Instance {
		return policy.Instance{ID: id, Names: []string{node}, Node: node, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.6")}}
	}
	type change func(c *content)
	const (
		approve = policy.Approve
		refuse  = policy.Refuse
		ignore  = policy.Ignore
	)
	tests := []struct {
		name      string
		content   *content
		change    change
		instances []policy.Instance
		want      policy.Verdict
		reason    policy.Reason
	}{
		// Client certificates.
		{name: "first certificate", content: client(), instances: []policy.Instance{joining()}, want: approve, reason: policy.ReasonApproved},
		{name: "first certificate with an RSA key's usages", content: client(), change: func(c *content) {
			c.spec.Usages = append(c.spec.Usages, certificatesv1.UsageKeyEncipherment)
		}, instances: []policy.Instance{joining()}, want: approve, reason: policy.ReasonApproved},
		{name: "renewal by the node", content: client(), instances: []policy.Instance{host()}, want: approve, reason: policy.ReasonApproved},
		{name: "bearer of a bootstrap token", content: client(), change: func(c *content) { c.spec.Username = bootstrapper }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonRequester},
		{name: "another node asks", content: client(), change: func(c *content) { c.spec.Username = "system:node:win-2" }, instances: []policy.Instance{host(), another("ns/win-2", "win-2")}, want: refuse, reason: policy.ReasonRequester},
		{name: "node without its group", content: client(), change: func(c *content) { c.spec.Groups = []string{"system:authenticated"} }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonGroups},
		{name: "administrators' group", content: client(), change: func(c *content) { c.template.Subject.Organization = []string{"system:masters"} }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonSubject},
		{name: "administrators' group too", content: client(), change: func(c *content) {
			c.template.Subject.Organization = append(c.template.Subject.Organization, "system:masters")
		}, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonSubject},
		{name: "no group", content: client(), change: func(c *content) { c.template.Subject.Organization = nil }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonSubject},
		{name: "more in the subject", content: client(), change: func(c *content) { c.template.Subject.OrganizationalUnit = []string{"x"} }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonSubject},
		{name: "no client auth", content: client(), change: func(c *content) {
			c.spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
		}, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonUsages},
		{name: "a usage twice", content: client(), change: func(c *content) {
			c.spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
		}, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonUsages},
		{name: "a usage too many", content: client(), change: func(c *content) { c.spec.Usages = append(c.spec.Usages, certificatesv1.UsageServerAuth) }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonUsages},
		{name: "client with a name", content: client(), change: func(c *content) { c.template.DNSNames = []string{"win-1"} }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonNames},
		{name: "client with a URI", content: client(), change: func(c *content) { c.template.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonNames},
		{name: "client with an e-mail address", content: client(), change: func(c *content) { c.template.EmailAddresses = []string{"a@example.com"} }, instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonNames},

		// Serving certificates.
		{name: "serving", content: serving(), instances: []policy.Instance{host()}, want: approve, reason: policy.ReasonApproved},
		{name: "serving under a name in capitals", content: serving(), change: func(c *content) { c.template.DNSNames = []string{"WIN-1"} }, instances: []policy.Instance{host()}, want: approve, reason: policy.ReasonApproved},
		{name: "serving by the bootstrapper", content: serving(), change: func(c *content) { c.spec.Username = bootstrapper }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonRequester},
		{name: "serving for another node", content: serving(), change: func(c *content) { c.spec.Username = "system:node:win-2" }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonRequester},
		{name: "serving without a node", content: serving(), instances: []policy.Instance{joining()}, want: refuse, reason: policy.ReasonNodeMissing},
		{name: "serving under the name of the API server", content: serving(), change: func(c *content) { c.template.DNSNames = append(c.template.DNSNames, "kubernetes.default.svc") }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonNameUnknown},
		{name: "serving under a part of its name", content: serving(), change: func(c *content) { c.template.DNSNames = []string{"win"} }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonNameUnknown},
		{name: "serving at the address of another host", content: serving(), change: func(c *content) { c.template.IPAddresses = append(c.template.IPAddresses, net.ParseIP("10.0.0.6")) }, instances: []policy.Instance{host(), another("ns/win-2", "win-2")}, want: refuse, reason: policy.ReasonAddress},
		{name: "serving nowhere", content: serving(), change: func(c *content) { c.template.DNSNames, c.template.IPAddresses = nil, nil }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonNoNames},
		{name: "serving under a principal's name", content: serving(), change: func(c *content) {
			c.template.DNSNames, c.template.IPAddresses = nil, nil
			c.template.ExtraExtensions = []pkix.Extension{otherName(t)}
		}, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonNames},
		{name: "serving with data behind the names", content: serving(), change: func(c *content) {
			c.template.DNSNames, c.template.IPAddresses = nil, nil
			c.template.ExtraExtensions = []pkix.Extension{namesAndMore(t)}
		}, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonNames},
		{name: "serving with an extension that is about no names", content: serving(), change: func(c *content) {
			c.template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 15}, Value: []byte{3, 2, 5, 160}}}
		}, instances: []policy.Instance{host()}, want: approve, reason: policy.ReasonApproved},
		{name: "serving under the name of its Node alone", content: serving(), instances: []policy.Instance{func() policy.Instance {
			i := host()
			i.Names = policy.HostNames("win-1.example.com")[:1]
			return i
		}()}, want: approve, reason: policy.ReasonApproved},
		{name: "serving as a client", content: serving(), change: func(c *content) { c.spec.Usages = client().spec.Usages }, instances: []policy.Instance{host()}, want: refuse, reason: policy.ReasonUsages},

		// Whose is it?
		{name: "no instances", content: client(), want: ignore, reason: policy.ReasonNotOurs},
		{name: "a Linux node", content: serving(), change: func(c *content) {
			c.template.Subject.CommonName, c.spec.Username = "system:node:worker-0", "system:node:worker-0"
		}, instances: []policy.Instance{host()}, want: ignore, reason: policy.ReasonNotOurs},
		{name: "a part of the name of a host", content: client(), change: func(c *content) { c.template.Subject.CommonName = "system:node:win" }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonNotOurs},
		{name: "more than the name of a host", content: client(), change: func(c *content) { c.template.Subject.CommonName = "system:node:win-1.example.com.evil" }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonNotOurs},
		{name: "the domain of a host", content: client(), change: func(c *content) { c.template.Subject.CommonName = "system:node:example.com" }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonNotOurs},
		{name: "the full name of a host", content: client(), change: func(c *content) {
			c.template.Subject.CommonName, c.spec.Username = "system:node:win-1.example.com", "system:node:win-1.example.com"
		}, instances: []policy.Instance{joining()}, want: approve, reason: policy.ReasonApproved},
		{name: "another name of a node", content: client(), change: func(c *content) { c.template.Subject.CommonName = "system:node:win-1.example.com" }, instances: []policy.Instance{host()}, want: ignore, reason: policy.ReasonNotOurs},
		{name: "two hosts of one name", content: client(), instances: []policy.Instance{joining(), func() policy.Instance {
			i := joining()
			i.ID, i.Names = "ns/other", policy.HostNames("win-1.other.example.com")
			return i
		}()}, want: refuse, reason: policy.ReasonAmbiguous},
		{name: "one of them is a node of another name", content: client(), instances: []policy.Instance{joining(), func() policy.Instance {
			i := host()
			i.ID, i.Node = "ns/other", "win-9"
			return i
		}()}, want: approve, reason: policy.ReasonApproved},
		{name: "what cannot be the name of a node", content: client(), change: func(c *content) { c.template.Subject.CommonName = "system:node:win_1" }, instances: []policy.Instance{func() policy.Instance {
			i := joining()
			i.Names = []string{"win_1"}
			return i
		}()}, want: ignore, reason: policy.ReasonNotOurs},
		{name: "no node at all", content: client(), change: func(c *content) { c.template.Subject.CommonName = "admin" }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonNotANode},
		{name: "a node without a name", content: client(), change: func(c *content) { c.template.Subject.CommonName = "system:node:" }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonNotANode},
		{name: "another signer", content: client(), change: func(c *content) { c.spec.SignerName = "example.com/x" }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonOtherSigner},
		{name: "a node's subject for the signer of users", content: client(), change: func(c *content) { c.spec.SignerName = certificatesv1.KubeAPIServerClientSignerName }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonOtherSigner},
		{name: "unreadable", content: client(), change: func(c *content) { c.spec.Request = []byte("x") }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonUnreadable},
		{name: "approved already", content: client(), change: func(c *content) {
			c.status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
		}, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonDecided},
		{name: "signed already", content: client(), change: func(c *content) { c.status.Certificate = []byte("x") }, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonDecided},
		{name: "denied already", content: client(), change: func(c *content) {
			c.status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue}}
		}, instances: []policy.Instance{joining()}, want: ignore, reason: policy.ReasonDecided},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(tt.content)
			}
			request := &certificatesv1.CertificateSigningRequest{Spec: tt.content.spec, Status: tt.content.status}
			if request.Spec.Request == nil {
				request.Spec.Request = encode(t, tt.content.template)
			}
			got := policy.Decide(request, tt.instances)
			if got.Verdict != tt.want || got.Reason != tt.reason {
				t.Errorf("got %+v, want %s, %s", got, tt.want, tt.reason)
			}
			if got.Message == "" {
				t.Error("the decision does not say why")
			}
			if got.Verdict == refuse && !slices.Contains(policy.Refusals, got.Reason) {
				t.Errorf("%s is not one of the refusals, which are counted from zero", got.Reason)
			}
			kind := policy.KubeletClient
			if tt.content.spec.SignerName == certificatesv1.KubeletServingSignerName {
				kind = policy.KubeletServing
			}
			if got.Verdict == approve && (got.Instance != "ns/win-1" || got.Kind != kind) {
				t.Errorf("approved for %q as %s", got.Instance, got.Kind)
			}
			if got.Reason == policy.ReasonSubject && !strings.Contains(got.Message, "subject") && !strings.Contains(got.Message, `not "system:nodes" alone`) {
				t.Errorf("the message does not say what the group must be: %s", got.Message)
			}
			slices.Reverse(tt.instances)
			if again := policy.Decide(request, tt.instances); again.Verdict != got.Verdict || again.Reason != got.Reason {
				t.Errorf("with the instances in another order: %+v, want %+v", again, got)
			}
		})
	}
}

func TestParse(t *testing.T) {
	valid := encode(t, client().template)
	block, _ := pem.Decode(valid)
	forged := slices.Clone(block.Bytes)
	forged[len(forged)-1] ^= 1
	tests := []struct {
		name    string
		request []byte
		want    string // part of the error; empty: none
	}{
		{name: "valid", request: valid},
		{name: "text before it", request: append([]byte("Certificate Request:\n"), valid...)},
		{name: "nothing", want: "no PEM block"},
		{name: "not PEM", request: block.Bytes, want: "no PEM block"},
		{name: "another type", request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}), want: `is a "CERTIFICATE"`},
		{name: "cut off", request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: block.Bytes[:20]}), want: "parse"},
		{name: "more behind it", request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: append(slices.Clone(block.Bytes), 0)}), want: "parse"},
		{name: "signed by another key", request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: forged}), want: "signature"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := policy.Parse(tt.request)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error about %q", err, tt.want)
			}
		})
	}
}

func TestHostNames(t *testing.T) {
	tests := []struct {
		name  string
		names []string
		want  []string
	}{
		{name: "none"},
		{name: "short", names: []string{"win-1"}, want: []string{"win-1"}},
		{name: "full", names: []string{"WIN-1.Example.com."}, want: []string{"win-1.example.com", "win-1"}},
		{name: "addresses", names: []string{"10.0.0.5", "fd00::5"}},
		{name: "not a name", names: []string{"win_1", "", "-"}},
		{name: "both, once", names: []string{"win-1", "win-1.example.com"}, want: []string{"win-1", "win-1.example.com"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policy.HostNames(tt.names...)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDecide: whatever is asked, only the names and addresses of the host are approved.
func FuzzDecide(f *testing.F) {
	f.Add(encode(f, client().template))
	f.Add(encode(f, serving().template))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		for _, c := range []*content{client(), serving()} {
			c.spec.Request = request
			d := policy.Decide(&certificatesv1.CertificateSigningRequest{Spec: c.spec}, []policy.Instance{host()})
			if d.Verdict != policy.Approve {
				continue
			}
			parsed, err := policy.Parse(request)
			if err != nil {
				t.Fatalf("approved, and not readable: %v", err)
			}
			if d.NodeName != "win-1" || !strings.HasSuffix(parsed.Subject.CommonName, ":win-1") {
				t.Errorf("approved for %q", parsed.Subject)
			}
			for _, name := range parsed.DNSNames {
				if !slices.Contains(host().Names, strings.ToLower(name)) {
					t.Errorf("approved with the name %q", name)
				}
			}
		}
	})
}
