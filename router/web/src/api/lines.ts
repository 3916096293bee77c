// Cuts a stream of bytes into lines, whatever pieces it comes in.
export class Lines {
  private readonly decoder = new TextDecoder();
  private rest = "";

  // The lines that end in this piece, without their ends.
  push(bytes: Uint8Array): string[] {
    const lines = (this.rest + this.decoder.decode(bytes, {stream: true})).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.filter((line) => line !== "");
  }
}
