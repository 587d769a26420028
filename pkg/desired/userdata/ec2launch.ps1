# SPDX-License-Identifier: Apache-2.0
# Copyright The Windows Instance API Authors.

# Keeps the routes to the metadata service of AWS, which the overlay network of the cluster would take
# away. Earlier versions of EC2Launch cannot. A host that cannot download one goes without; the routes are
# added again then by what configures the host.

Invoke-Step 'Keeping routes with EC2Launch' {
  $launch = Join-Path $env:ProgramFiles 'Amazon\EC2Launch\EC2Launch.exe'
  $version = [version]'0.0'
  if (Test-Path -LiteralPath $launch -PathType Leaf) {
    if ([string](& $launch version) -match '\d+(\.\d+){1,3}') { $version = [version]$Matches[0] }
  }
  if ($version -lt [version]$minimumEC2Launch) {
    # Only administrators may write there.
    $msi = Join-Path $ssh 'AmazonEC2Launch.msi'
    [Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
    Invoke-WebRequest -UseBasicParsing -TimeoutSec 60 -OutFile $msi -Uri 'https://s3.amazonaws.com/amazon-ec2launch-v2/windows/amd64/latest/AmazonEC2Launch.msi'
    $signature = Get-AuthenticodeSignature -LiteralPath $msi
    if ($signature.Status -ne 'Valid' -or $signature.SignerCertificate.Subject -notmatch '\bO="?Amazon') {
      Remove-Item -LiteralPath $msi -Force
      throw 'the installer of EC2Launch is not signed by Amazon'
    }
    $installer = Start-Process -FilePath msiexec.exe -ArgumentList '/i', $msi, '/qn', '/norestart' -Wait -PassThru
    Remove-Item -LiteralPath $msi -Force
    if ($installer.ExitCode -ne 0) { throw "msiexec.exe failed with $($installer.ExitCode)" }
  }
  & $launch run-task add-routes --persistent
  if ($LASTEXITCODE -ne 0) { throw "EC2Launch.exe failed with $LASTEXITCODE" }
}
