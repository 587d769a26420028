// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package hack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	machinev1 "github.com/openshift/api/machine/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// clientStandIn stands in for oc: it reads from files, and writes what it applies and deletes.
const clientStandIn = `#!/bin/sh
case "$*" in
"get infrastructures.config.openshift.io cluster -o json") cat "$CLUSTER/infrastructure.json" ;;
"get machinesets.machine.openshift.io -n openshift-machine-api -o json") cat "$CLUSTER/machinesets.json" ;;
"get machinesets.machine.openshift.io "*" -n openshift-machine-api --ignore-not-found -o json") [ ! -f "$CLUSTER/$3.json" ] || cat "$CLUSTER/$3.json" ;;
"apply -f -") cat >"$CLUSTER/applied.json" ;;
"delete machinesets.machine.openshift.io "*" -n openshift-machine-api --ignore-not-found") echo "$3" >"$CLUSTER/deleted" ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
`

// awsStandIn stands in for the program of AWS, which knows one image of Amazon.
const awsStandIn = `#!/bin/sh
case "$*" in
*"--region us-east-2 "*"--owners amazon "*"Windows_Server-2025-English-Core-Base-*"*) echo ami-0123abcd ;;
*) echo None ;;
esac
`

// worker is a MachineSet as an installer makes it.
func worker(t *testing.T, name string, labels map[string]string, spec any) machinev1beta1.MachineSet {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	set := machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "openshift-machine-api"}}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	return set
}

var (
	workerLabels = map[string]string{"machine.openshift.io/cluster-api-machine-role": "worker"}
	workerData   = &corev1.LocalObjectReference{Name: "worker-user-data"}
	windowsData  = &corev1.LocalObjectReference{Name: "windows-user-data"}
)

func aws(zone string) *machinev1beta1.AWSMachineProviderConfig {
	return &machinev1beta1.AWSMachineProviderConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "AWSMachineProviderConfig"},
		AMI:      machinev1beta1.AWSResourceReference{ID: ptr.To("ami-linux")}, InstanceType: "m6i.xlarge",
		BlockDevices:       []machinev1beta1.BlockDeviceMappingSpec{{EBS: &machinev1beta1.EBSBlockDeviceSpec{VolumeSize: ptr.To[int64](100), VolumeType: ptr.To("gp3"), Encrypted: ptr.To(true)}}},
		IAMInstanceProfile: &machinev1beta1.AWSResourceReference{ID: ptr.To("demo-7k2xq-worker-profile")},
		Placement:          machinev1beta1.Placement{AvailabilityZone: zone, Region: "us-east-2"},
		Subnet:             machinev1beta1.AWSResourceReference{ID: ptr.To("subnet-" + zone)},
		UserDataSecret:     workerData, CredentialsSecret: &corev1.LocalObjectReference{Name: "aws-cloud-credentials"},
	}
}

func azure() *machinev1beta1.AzureMachineProviderSpec {
	return &machinev1beta1.AzureMachineProviderSpec{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "AzureMachineProviderSpec"},
		Location: "eastus", VMSize: "Standard_D4s_v5", Zone: "1", Vnet: "their-vnet", Subnet: "their-subnet", ResourceGroup: "demo-rg",
		Image:             machinev1beta1.Image{ResourceID: "/images/linux"},
		OSDisk:            machinev1beta1.OSDisk{OSType: "Linux", DiskSizeGB: 256, ManagedDisk: machinev1beta1.OSDiskManagedDiskParameters{StorageAccountType: "Premium_LRS"}},
		DataDisks:         []machinev1beta1.DataDisk{{NameSuffix: "x", DiskSizeGB: 1}},
		UserDataSecret:    &corev1.SecretReference{Name: "worker-user-data", Namespace: "openshift-machine-api"},
		CredentialsSecret: &corev1.SecretReference{Name: "azure-cloud-credentials", Namespace: "openshift-machine-api"},
	}
}

func gcp() *machinev1beta1.GCPMachineProviderSpec {
	return &machinev1beta1.GCPMachineProviderSpec{
		TypeMeta:    metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "GCPMachineProviderSpec"},
		MachineType: "n2-standard-4", Region: "us-east1", Zone: "us-east1-b", ProjectID: "example",
		Disks:             []*machinev1beta1.GCPDisk{{AutoDelete: true, Boot: true, Image: "projects/linux", SizeGB: 64, Type: "pd-ssd"}},
		NetworkInterfaces: []*machinev1beta1.GCPNetworkInterface{{Network: "demo-network", Subnetwork: "demo-worker-subnet"}},
		UserDataSecret:    workerData, CredentialsSecret: &corev1.LocalObjectReference{Name: "gcp-cloud-credentials"},
	}
}

func vSphere() *machinev1beta1.VSphereMachineProviderSpec {
	return &machinev1beta1.VSphereMachineProviderSpec{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "VSphereMachineProviderSpec"},
		Template: "demo-rhcos", NumCPUs: 8, NumCoresPerSocket: 4, MemoryMiB: 8192, DiskGiB: 120,
		Workspace:      &machinev1beta1.Workspace{Server: "vcenter.example.com", Datacenter: "DC0", Datastore: "ds", Folder: "/DC0/vm/demo", ResourcePool: "/DC0/host/c/Resources"},
		Network:        machinev1beta1.NetworkSpec{Devices: []machinev1beta1.NetworkDeviceSpec{{NetworkName: "VM Network"}}},
		UserDataSecret: workerData, CredentialsSecret: &corev1.LocalObjectReference{Name: "vsphere-cloud-credentials"},
	}
}

func nutanix() *machinev1.NutanixMachineProviderConfig {
	byUUID := machinev1.NutanixResourceIdentifier{Type: machinev1.NutanixIdentifierUUID, UUID: ptr.To("c1")}
	return &machinev1.NutanixMachineProviderConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1", Kind: "NutanixMachineProviderConfig"},
		Cluster:  byUUID, Subnets: []machinev1.NutanixResourceIdentifier{byUUID}, Project: machinev1.NutanixResourceIdentifier{Type: machinev1.NutanixIdentifierName, Name: ptr.To("ocp")},
		Image:          machinev1.NutanixResourceIdentifier{Type: machinev1.NutanixIdentifierName, Name: ptr.To("demo-rhcos")},
		VCPUsPerSocket: 2, VCPUSockets: 2, MemorySize: resource.MustParse("8Gi"), SystemDiskSize: resource.MustParse("100Gi"), BootType: machinev1.NutanixUEFIBoot,
		UserDataSecret: workerData, CredentialsSecret: &corev1.LocalObjectReference{Name: "nutanix-credentials"},
	}
}

// runMachineSet runs the script in a cluster, with the files that it has besides. It returns what is in there afterwards.
func runMachineSet(t *testing.T, platform configv1.PlatformType, sets []machinev1beta1.MachineSet, files map[string]string, args ...string) (out string, after map[string]string, err error) {
	t.Helper()
	dir := t.TempDir()
	infrastructure := configv1.Infrastructure{Status: configv1.InfrastructureStatus{InfrastructureName: "demo-7k2xq", PlatformStatus: &configv1.PlatformStatus{Type: platform}}}
	for name, object := range map[string]any{"infrastructure": infrastructure, "machinesets": machinev1beta1.MachineSetList{Items: sets}} {
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		writeFiles(t, dir, map[string]string{"cluster/" + name + ".json": string(raw)})
	}
	writeFiles(t, filepath.Join(dir, "cluster"), files)
	writeFiles(t, filepath.Join(dir, "bin"), map[string]string{"oc": clientStandIn, "aws": awsStandIn})
	cmd := exec.CommandContext(t.Context(), "./machineset.sh", args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "CLUSTER="+filepath.Join(dir, "cluster"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), snapshot(t, filepath.Join(dir, "cluster")), err
}

// existing is a MachineSet of Windows that the cluster has, as JSON. A negative number is one that it does not say.
func existing(t *testing.T, replicas int32, spec any) string {
	t.Helper()
	set := worker(t, "winworker", map[string]string{"machine.openshift.io/os-id": "Windows"}, spec)
	if replicas >= 0 {
		set.Spec.Replicas = &replicas
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ignored is a MachineSet of Windows, as JSON, whose Machines have a value of the label by which they are ignored.
func ignored(set, value string) string {
	const label = `"machine.openshift.io/os-id":"Windows"`
	return strings.Replace(set, label, label+`,"windowsmachineconfig.openshift.io/ignore":"`+value+`"`, 1)
}

// decodeStrictly decodes JSON into an object whose kind has every field of it.
func decodeStrictly(t *testing.T, raw []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
}

// TestMachineSet: what the script prints is a MachineSet whose provider spec has all the fields of its kind, and what it
// took from the workers.
func TestMachineSet(t *testing.T) {
	windowsAWS := aws("us-east-2a")
	windowsAWS.AMI.ID, windowsAWS.InstanceType, windowsAWS.UserDataSecret = ptr.To("ami-0123abcd"), "m5a.large", windowsData
	windowsAWS.BlockDevices[0].EBS.VolumeSize = ptr.To[int64](120)
	ownAWS := aws("us-east-2b")
	ownAWS.AMI.ID, ownAWS.InstanceType, ownAWS.UserDataSecret = ptr.To("ami-1"), "m7i.2xlarge", windowsData
	ownAWS.BlockDevices[0].EBS.VolumeSize = ptr.To[int64](120)
	windowsAzure := azure()
	windowsAzure.Image = machinev1beta1.Image{Publisher: "MicrosoftWindowsServer", Offer: "WindowsServer", SKU: "2022-datacenter-smalldisk", Version: "latest", Type: machinev1beta1.AzureImageTypeMarketplaceNoPlan}
	windowsAzure.OSDisk.OSType, windowsAzure.VMSize, windowsAzure.DataDisks, windowsAzure.UserDataSecret.Name = "Windows", "Standard_D2s_v3", nil, "windows-user-data"
	ownAzure := windowsAzure.DeepCopy()
	ownAzure.Image = machinev1beta1.Image{ResourceID: "/images/windows"}
	// Of what only other machines can have nothing is taken over.
	reservedAWS := aws("us-east-2a")
	reservedAWS.CapacityReservationID, reservedAWS.MarketType, reservedAWS.NetworkInterfaceType = "cr-0123456789abcdef0", machinev1beta1.MarketTypeCapacityBlock, machinev1beta1.AWSEFANetworkInterfaceType
	reservedAWS.CPUOptions = &machinev1beta1.CPUOptions{ConfidentialCompute: ptr.To(machinev1beta1.AWSConfidentialComputePolicySEVSNP)}
	reservedAWS.PlacementGroupName, reservedAWS.PlacementGroupPartition = "workers", ptr.To[int32](2)
	reservedAWS.Placement.Tenancy, reservedAWS.Placement.Host = machinev1beta1.HostTenancy, &machinev1beta1.HostPlacement{Affinity: ptr.To(machinev1beta1.HostAffinityAnyAvailable)}
	sameAWS := reservedAWS.DeepCopy()
	sameAWS.AMI.ID, sameAWS.UserDataSecret, sameAWS.CapacityReservationID, sameAWS.MarketType, sameAWS.CPUOptions = ptr.To("ami-1"), windowsData, "", "", nil
	sameAWS.BlockDevices[0].EBS.VolumeSize = ptr.To[int64](120)
	confidentialAzure := azure()
	confidentialAzure.CapacityReservationGroupID = "/groups/workers"
	confidentialAzure.SecurityProfile = &machinev1beta1.SecurityProfile{Settings: machinev1beta1.SecuritySettings{
		SecurityType: machinev1beta1.SecurityTypesConfidentialVM, ConfidentialVM: &machinev1beta1.ConfidentialVM{UEFISettings: machinev1beta1.UEFISettings{SecureBoot: machinev1beta1.SecureBootPolicyEnabled}},
	}}
	confidentialAzure.OSDisk.ManagedDisk.SecurityProfile.SecurityEncryptionType = machinev1beta1.SecurityEncryptionTypesVMGuestStateOnly
	encryptedAzure := confidentialAzure.DeepCopy()
	encryptedAzure.SecurityProfile.EncryptionAtHost = ptr.To(true)
	windowsEncryptedAzure := windowsAzure.DeepCopy()
	windowsEncryptedAzure.SecurityProfile, windowsEncryptedAzure.VMSize, windowsEncryptedAzure.CapacityReservationGroupID = &machinev1beta1.SecurityProfile{EncryptionAtHost: ptr.To(true)}, "Standard_D4s_v5", "/groups/workers"
	windowsGCP := gcp()
	windowsGCP.Disks[0].Image, windowsGCP.Disks[0].SizeGB, windowsGCP.MachineType, windowsGCP.UserDataSecret = "projects/windows-cloud/global/images/family/windows-2025-core", 128, "n1-standard-4", windowsData
	// Disks are for some types of machines only.
	ephemeralAzure := azure()
	ephemeralAzure.OSDisk.DiskSettings.EphemeralStorageLocation, ephemeralAzure.OSDisk.CachingType = "Local", "ReadOnly"
	windowsEphemeralAzure := windowsAzure.DeepCopy()
	windowsEphemeralAzure.OSDisk.CachingType = "ReadOnly"
	sameEphemeralAzure := windowsEphemeralAzure.DeepCopy()
	sameEphemeralAzure.VMSize, sameEphemeralAzure.OSDisk.DiskSettings.EphemeralStorageLocation = "Standard_D4s_v5", "Local"
	smallEphemeralAzure := ephemeralAzure.DeepCopy()
	smallEphemeralAzure.OSDisk.DiskSizeGB = 64
	grownAzure := windowsEphemeralAzure.DeepCopy()
	grownAzure.VMSize, grownAzure.OSDisk.DiskSizeGB = "Standard_D4s_v5", 128
	c4GCP := gcp()
	c4GCP.MachineType, c4GCP.Disks[0].Type = "c4-standard-8", "hyperdisk-balanced"
	sameGCP := c4GCP.DeepCopy()
	sameGCP.Disks[0].Image, sameGCP.Disks[0].SizeGB, sameGCP.UserDataSecret = windowsGCP.Disks[0].Image, 128, windowsData
	smallerGCP := sameGCP.DeepCopy()
	smallerGCP.MachineType = "c4-standard-4"
	balancedGCP := gcp()
	balancedGCP.Disks[0].Type = "pd-balanced"
	sameBalancedGCP := sameGCP.DeepCopy()
	sameBalancedGCP.MachineType, sameBalancedGCP.Disks[0].Type = "n2-standard-4", "pd-balanced"
	windowsVSphere := vSphere()
	windowsVSphere.Template, windowsVSphere.MemoryMiB, windowsVSphere.DiskGiB, windowsVSphere.UserDataSecret = "golden", 16384, 128, windowsData
	windowsNutanix := nutanix()
	windowsNutanix.Image.Name, windowsNutanix.VCPUSockets, windowsNutanix.VCPUsPerSocket, windowsNutanix.BootType, windowsNutanix.UserDataSecret = ptr.To("golden"), 4, 1, "", windowsData
	windowsNutanix.MemorySize, windowsNutanix.SystemDiskSize = resource.MustParse("16Gi"), resource.MustParse("120Gi")

	former := worker(t, "a-windows", map[string]string{"machine.openshift.io/cluster-api-machine-role": "worker", "machine.openshift.io/os-id": "Windows"}, aws("none"))
	infra := worker(t, "a-infra", map[string]string{"machine.openshift.io/cluster-api-machine-role": "infra"}, aws("none"))
	for _, tt := range []struct {
		name     string
		platform configv1.PlatformType
		spec     any // of the workers
		args     []string
		set      string
		replicas int32
		ignored  bool
		into     any
		want     any
	}{
		{name: "AWS", platform: configv1.AWSPlatformType, spec: aws("us-east-2a"), args: []string{"-w", "2025"}, set: "demo-7k2xq-winworker-us-east-2a", replicas: 1, into: &machinev1beta1.AWSMachineProviderConfig{}, want: windowsAWS},
		{
			name: "AWS, chosen", platform: configv1.AWSPlatformType, spec: aws("us-east-2a"), args: []string{"-i", "ami-1", "-t", "m7i.2xlarge", "-f", "workers-b", "-n", "win-b", "-r", "0", "-b"},
			set: "win-b", ignored: true, into: &machinev1beta1.AWSMachineProviderConfig{}, want: ownAWS,
		},
		{
			name: "AWS, ignored", platform: configv1.AWSPlatformType, spec: aws("us-east-2a"), args: []string{"-w", "2025", "-b"},
			set: "demo-7k2xq-winbyoh-us-east-2a", replicas: 1, ignored: true, into: &machinev1beta1.AWSMachineProviderConfig{}, want: windowsAWS,
		},
		{name: "AWS, from reserved machines", platform: configv1.AWSPlatformType, spec: reservedAWS, args: []string{"-w", "2025"}, set: "demo-7k2xq-winworker-us-east-2a", replicas: 1, into: &machinev1beta1.AWSMachineProviderConfig{}, want: windowsAWS},
		{
			name: "AWS, from reserved machines of the same type", platform: configv1.AWSPlatformType, spec: reservedAWS, args: []string{"-i", "ami-1", "-t", "m6i.xlarge"},
			set: "demo-7k2xq-winworker-us-east-2a", replicas: 1, into: &machinev1beta1.AWSMachineProviderConfig{}, want: sameAWS,
		},
		{name: "Azure, from confidential machines", platform: configv1.AzurePlatformType, spec: confidentialAzure, set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: windowsAzure},
		{
			name: "Azure, from machines with encryption", platform: configv1.AzurePlatformType, spec: encryptedAzure, args: []string{"-t", "Standard_D4s_v5"},
			set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: windowsEncryptedAzure,
		},
		{name: "Azure", platform: configv1.AzurePlatformType, spec: azure(), set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: windowsAzure},
		{name: "Azure, chosen", platform: configv1.AzurePlatformType, spec: azure(), args: []string{"-i", "/images/windows"}, set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: ownAzure},
		{name: "GCP", platform: configv1.GCPPlatformType, spec: gcp(), args: []string{"-w", "2025"}, set: "demo-7k2xq-winworker-b", replicas: 1, into: &machinev1beta1.GCPMachineProviderSpec{}, want: windowsGCP},
		{name: "GCP, from machines that have only hyperdisks", platform: configv1.GCPPlatformType, spec: c4GCP, args: []string{"-w", "2025"}, set: "demo-7k2xq-winworker-b", replicas: 1, into: &machinev1beta1.GCPMachineProviderSpec{}, want: windowsGCP},
		{
			name: "GCP, of the same type", platform: configv1.GCPPlatformType, spec: c4GCP, args: []string{"-w", "2025", "-t", "c4-standard-8"},
			set: "demo-7k2xq-winworker-b", replicas: 1, into: &machinev1beta1.GCPMachineProviderSpec{}, want: sameGCP,
		},
		{
			name: "GCP, of another type that has only hyperdisks", platform: configv1.GCPPlatformType, spec: c4GCP, args: []string{"-w", "2025", "-t", "c4-standard-4"},
			set: "demo-7k2xq-winworker-b", replicas: 1, into: &machinev1beta1.GCPMachineProviderSpec{}, want: smallerGCP,
		},
		{
			name: "GCP, to machines that have only hyperdisks", platform: configv1.GCPPlatformType, spec: gcp(), args: []string{"-w", "2025", "-t", "c4-standard-4"},
			set: "demo-7k2xq-winworker-b", replicas: 1, into: &machinev1beta1.GCPMachineProviderSpec{}, want: smallerGCP,
		},
		{
			name: "GCP, of the same type with another disk", platform: configv1.GCPPlatformType, spec: balancedGCP, args: []string{"-w", "2025", "-t", "n2-standard-4"},
			set: "demo-7k2xq-winworker-b", replicas: 1, into: &machinev1beta1.GCPMachineProviderSpec{}, want: sameBalancedGCP,
		},
		{name: "Azure, from machines whose disk is in their cache", platform: configv1.AzurePlatformType, spec: ephemeralAzure, set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: windowsEphemeralAzure},
		{
			name: "Azure, of the same size, with a disk in its cache", platform: configv1.AzurePlatformType, spec: ephemeralAzure, args: []string{"-t", "Standard_D4s_v5"},
			set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: sameEphemeralAzure,
		},
		{
			name: "Azure, of the same size, with a larger disk than in its cache", platform: configv1.AzurePlatformType, spec: smallEphemeralAzure, args: []string{"-t", "Standard_D4s_v5"},
			set: "winworker", replicas: 1, into: &machinev1beta1.AzureMachineProviderSpec{}, want: grownAzure,
		},
		{name: "GCP, ignored", platform: configv1.GCPPlatformType, spec: gcp(), args: []string{"-bw", "2025"}, set: "demo-7k2xq-winbyoh-b", replicas: 1, ignored: true, into: &machinev1beta1.GCPMachineProviderSpec{}, want: windowsGCP},
		{name: "vSphere, ignored", platform: configv1.VSpherePlatformType, spec: vSphere(), args: []string{"-b", "-i", "golden"}, set: "winbyoh", replicas: 1, ignored: true, into: &machinev1beta1.VSphereMachineProviderSpec{}, want: windowsVSphere},
		{name: "vSphere", platform: configv1.VSpherePlatformType, spec: vSphere(), args: []string{"-i", "golden", "-r", "3"}, set: "winworker", replicas: 3, into: &machinev1beta1.VSphereMachineProviderSpec{}, want: windowsVSphere},
		{name: "Nutanix", platform: configv1.NutanixPlatformType, spec: nutanix(), args: []string{"-i", "golden"}, set: "winworker", replicas: 1, into: &machinev1.NutanixMachineProviderConfig{}, want: windowsNutanix},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sets := []machinev1beta1.MachineSet{former, infra, worker(t, "workers-b", workerLabels, aws("us-east-2b")), worker(t, "workers-a", workerLabels, tt.spec)}
			out, _, err := runMachineSet(t, tt.platform, sets, nil, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			var set machinev1beta1.MachineSet
			decodeStrictly(t, []byte(out), &set)
			decodeStrictly(t, set.Spec.Template.Spec.ProviderSpec.Value.Raw, tt.into)
			if diff := cmp.Diff(tt.want, tt.into); diff != "" {
				t.Errorf("the provider spec (-want +got)\n%s", diff)
			}
			labels := map[string]string{
				"machine.openshift.io/cluster-api-cluster": "demo-7k2xq", "machine.openshift.io/cluster-api-machineset": tt.set, "machine.openshift.io/os-id": "Windows",
				"machine.openshift.io/cluster-api-machine-role": "worker", "machine.openshift.io/cluster-api-machine-type": "worker",
			}
			if tt.ignored {
				labels["windowsmachineconfig.openshift.io/ignore"] = "true"
			}
			if diff := cmp.Diff(labels, set.Spec.Template.Labels); diff != "" {
				t.Errorf("labels of Machines (-want +got)\n%s", diff)
			}
			// Without these the autoscaler takes a set of 0 for one of Linux.
			for _, want := range []string{"labels=kubernetes.io/os=windows", "taints=os=Windows:NoSchedule"} {
				key, value, _ := strings.Cut(want, "=")
				if got := set.Annotations["capacity.cluster-autoscaler.kubernetes.io/"+key]; got != value {
					t.Errorf("annotation %s is %q, want %q", key, got, value)
				}
			}
			selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
			if err != nil || set.Name != tt.set || set.Namespace != "openshift-machine-api" || *set.Spec.Replicas != tt.replicas || !strings.Contains(selector.String(), tt.set) {
				t.Errorf("got %s/%s of %d, which selects %s, %v", set.Namespace, set.Name, *set.Spec.Replicas, selector, err)
			}
		})
	}
}

// TestMachineSetActions: it applies and deletes one set, and none that is not of Windows.
func TestMachineSetActions(t *testing.T) {
	sets := []machinev1beta1.MachineSet{worker(t, "workers", workerLabels, vSphere())}
	windows := existing(t, 20, vSphere())
	elsewhere := vSphere()
	elsewhere.Workspace.Datacenter, elsewhere.Network.Devices[0].NetworkName = "DC1", "VM Network 1"
	zones := append(slices.Clone(sets), worker(t, "workers-zone2", workerLabels, elsewhere))
	azureSets := []machinev1beta1.MachineSet{worker(t, "workers", workerLabels, azure())}
	onOwnHosts := aws("us-east-2a")
	onOwnHosts.Placement.Tenancy = machinev1beta1.HostTenancy
	zone2 := azure()
	zone2.Zone = "2"
	for _, tt := range []struct {
		name     string
		platform configv1.PlatformType
		sets     []machinev1beta1.MachineSet
		files    map[string]string
		args     []string
		file     string // that is written
		want     string // part of the file, or of the error
	}{
		{name: "apply", args: []string{"-i", "golden", "apply"}, file: "applied.json", want: `"name": "winworker"`},
		{name: "apply again", files: map[string]string{"winworker.json": windows}, args: []string{"-i", "golden", "apply"}, file: "applied.json", want: `"replicas": 20,`},
		{name: "apply again, of 0", files: map[string]string{"winworker.json": existing(t, 0, vSphere())}, args: []string{"-i", "golden", "apply"}, file: "applied.json", want: `"replicas": 0,`},
		{name: "apply again, of as many as is the default", files: map[string]string{"winworker.json": existing(t, -1, vSphere())}, args: []string{"-i", "golden", "apply"}, file: "applied.json", want: `"replicas": 1,`},
		{name: "apply again, with a number", files: map[string]string{"winworker.json": windows}, args: []string{"-i", "golden", "-r", "3", "apply"}, file: "applied.json", want: `"replicas": 3,`},
		{name: "apply again, with another template", files: map[string]string{"winworker.json": windows}, args: []string{"-i", "silver", "apply"}, file: "applied.json", want: `"template": "silver"`},
		{name: "apply again, of another version", platform: configv1.AzurePlatformType, sets: azureSets, files: map[string]string{"winworker.json": existing(t, 20, azure())}, args: []string{"-w", "2025", "apply"}, file: "applied.json", want: `"replicas": 20,`},
		{
			name: "apply, in another zone", platform: configv1.AzurePlatformType, sets: azureSets, files: map[string]string{"winworker.json": existing(t, 20, zone2)}, args: []string{"apply"},
			want: "MachineSet winworker exists and was not made from MachineSet workers: its zone is 2, not 1. Name the one that it was made from with -f, or choose another name with -n",
		},
		{
			name: "apply, from other workers", sets: zones, files: map[string]string{"winworker.json": windows}, args: []string{"-i", "golden", "-f", "workers-zone2", "apply"},
			want: "not made from MachineSet workers-zone2: its network.devices.0.networkName is VM Network, not VM Network 1; its workspace.datacenter is DC0, not DC1. Name",
		},
		{name: "print, from other workers", sets: zones, files: map[string]string{"winworker.json": windows}, args: []string{"-i", "golden", "-f", "workers-zone2"}, want: "not made from MachineSet workers-zone2"},
		{name: "apply, and it says nothing of where it is", files: map[string]string{"winworker.json": `{"spec":{"template":{"metadata":{"labels":{"machine.openshift.io/os-id":"Windows"}}}}}`}, args: []string{"-i", "golden", "apply"}, want: "its network.devices.0.networkName is null, not VM Network"},
		{name: "apply, from other workers under another name", sets: zones, files: map[string]string{"winworker.json": windows}, args: []string{"-i", "golden", "-f", "workers-zone2", "-n", "winzone2", "apply"}, file: "applied.json", want: `"datacenter": "DC1"`},
		{
			name: "apply again, from reserved machines", platform: configv1.AWSPlatformType, sets: []machinev1beta1.MachineSet{worker(t, "workers", workerLabels, onOwnHosts)},
			files: map[string]string{"winworker.json": existing(t, 20, aws("us-east-2a"))}, args: []string{"-i", "ami-1", "-n", "winworker", "apply"}, file: "applied.json", want: `"replicas": 20,`,
		},
		{name: "delete, from other workers", sets: zones, files: map[string]string{"winworker.json": windows}, args: []string{"-f", "workers-zone2", "delete"}, want: "not made from MachineSet workers-zone2"},
		{name: "delete, whichever workers it was made from", sets: zones, files: map[string]string{"winzone2.json": existing(t, 1, elsewhere)}, args: []string{"-n", "winzone2", "delete"}, file: "deleted", want: "winzone2"},
		{name: "delete", files: map[string]string{"winworker.json": windows}, args: []string{"delete"}, file: "deleted", want: "winworker"},
		// Ignored ones have a name of their own, as with the script of WMCO: Machines that somebody relies on stay.
		{name: "apply, ignored", files: map[string]string{"winworker.json": windows}, args: []string{"-b", "-i", "golden", "apply"}, file: "applied.json", want: `"name": "winbyoh"`},
		{name: "apply again, ignored", files: map[string]string{"winbyoh.json": ignored(windows, "true")}, args: []string{"-b", "-i", "golden", "apply"}, file: "applied.json", want: `"replicas": 20,`},
		{name: "delete, ignored", files: map[string]string{"winworker.json": windows, "winbyoh.json": ignored(windows, "true")}, args: []string{"-b", "delete"}, file: "deleted", want: "winbyoh"},
		{name: "apply again, as WMCO has labeled it", files: map[string]string{"winworker.json": ignored(windows, "false")}, args: []string{"-i", "golden", "apply"}, file: "applied.json", want: `"replicas": 20,`},
		{
			name: "apply, ignored, one that is not", files: map[string]string{"win.json": windows}, args: []string{"-bi", "my golden", "-n", "win", "apply"},
			want: `MachineSet win exists, and its Machines are not ignored: they have no label windowsmachineconfig.openshift.io/ignore=true. Choose another name with -n, or run this without -b: ./machineset.sh -i my\ golden -n win apply`,
		},
		{
			name: "apply, one that is ignored", files: map[string]string{"winworker.json": ignored(windows, "true")}, args: []string{"-i", "golden", "apply"},
			want: "MachineSet winworker exists, and its Machines are ignored: they have the label windowsmachineconfig.openshift.io/ignore=true. Choose another name with -n, or run this with -b: ./machineset.sh -i golden -n winworker -b apply",
		},
		{name: "delete, ignored, one that is not", files: map[string]string{"winworker.json": windows}, args: []string{"-b", "-n", "winworker", "delete"}, want: "run this without -b: ./machineset.sh -n winworker delete"},
		{name: "delete, one that is ignored", files: map[string]string{"winworker.json": ignored(windows, "true")}, args: []string{"delete"}, want: "run this with -b: ./machineset.sh -n winworker -b delete"},
		{name: "print, one that is ignored", files: map[string]string{"winworker.json": ignored(windows, "true")}, args: []string{"-i", "golden"}, want: "run this with -b: ./machineset.sh -i golden -n winworker -b\n"},
		{name: "delete, of Linux", files: map[string]string{"workers.json": `{"spec":{}}`}, args: []string{"-n", "workers", "delete"}, want: "MachineSet workers exists and is not of Windows"},
		{name: "apply, of Linux", files: map[string]string{"workers.json": `{"spec":{}}`}, args: []string{"-n", "workers", "-i", "golden", "apply"}, want: "not of Windows"},
		{name: "no image", args: []string{"apply"}, want: "name the image of Windows with -i"},
		{name: "a long name", args: []string{"-n", "winworkers", "-i", "golden"}, want: "at most 9 lower-case letters"},
		{name: "a bad name", args: []string{"-n", "Win", "-i", "golden"}, want: "is no name for a MachineSet"},
		{name: "a type of machines", args: []string{"-t", "big", "-i", "golden"}, want: "-t has no meaning on VSphere"},
		{name: "another version", args: []string{"-w", "2019"}, want: "-w is 2022 or 2025"},
		{name: "no number", args: []string{"-r", "many"}, want: "-r is a number"},
		{name: "another action", args: []string{"destroy"}, want: "the action is apply or delete"},
		{name: "another option", args: []string{"-x"}, want: "there is no option -x"},
		{name: "no value", args: []string{"-n"}, want: "-n needs a value"},
		{name: "no such workers", args: []string{"-f", "gone", "-i", "golden"}, want: "no MachineSet gone to make one of Windows from"},
		{name: "no workers", sets: []machinev1beta1.MachineSet{}, args: []string{"-i", "golden"}, want: "no MachineSet of workers to make one of Windows from"},
		{name: "another platform", platform: configv1.BareMetalPlatformType, want: "nothing is known of MachineSets on platform BareMetal"},
		{name: "an image that is not there", platform: configv1.AWSPlatformType, sets: []machinev1beta1.MachineSet{worker(t, "workers", workerLabels, aws("us-east-2a"))}, want: "Amazon has no image of Windows Server 2022 there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.platform == "" {
				tt.platform = configv1.VSpherePlatformType
			}
			if tt.sets == nil {
				tt.sets = sets
			}
			_, after, err := runMachineSet(t, tt.platform, tt.sets, tt.files, tt.args...)
			for _, name := range []string{"applied.json", "deleted"} {
				if _, written := after[name]; written != (name == tt.file) {
					t.Errorf("%s was written: %t", name, written)
				}
			}
			got := after[tt.file]
			if tt.file == "" && err != nil {
				got = err.Error()
			} else if err != nil || tt.file == "" {
				t.Fatalf("got error %v", err)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %q", got, tt.want)
			}
		})
	}
	if out, _, err := runMachineSet(t, configv1.VSpherePlatformType, sets, nil, "-h"); err != nil || !strings.HasPrefix(out, "usage:") || slices.Contains(strings.Split(out, "\n"), "USAGE") {
		t.Errorf("got %q, %v", out, err)
	}
}
